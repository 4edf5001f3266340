// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"slices"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
)

// Controller is one controller of a module: which kinds it watches, and of which of them it has not been told all
// initial objects yet.
type Controller struct {
	Name       string
	Supervised bool

	mu     sync.Mutex // protects the fields; held for no longer than a look at a handle
	begun  bool       // its sources were started
	synced bool       // all of them have delivered
	kinds  []watchedKind
}

// watchedKind is a kind that a controller watches.
type watchedKind struct {
	Kind   string                                      // as people write it: Deployment.apps
	What   string                                      // as the tracker names what is in the way of it
	handle toolscache.ResourceEventHandlerRegistration // nil until the controller has one
}

// watcherKey is what the context of a controller's sources leads to its watcher by.
type watcherKey struct{}

// watcherOf returns the controller on whose behalf something is done, or nil.
func watcherOf(ctx context.Context) *Controller {
	w, _ := ctx.Value(watcherKey{}).(*Controller)
	return w
}

func (w *Controller) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
}

func (w *Controller) MarkSynced() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced, w.kinds = true, nil
}

// watches notes that the controller asks for a kind. A source that gets no informer asks again and again.
func (w *Controller) watches(kind, what string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	open := func(k watchedKind) bool { return k.What == what && k.Kind == kind && k.handle == nil }
	if !w.synced && !slices.ContainsFunc(w.kinds, open) {
		w.kinds = append(w.kinds, watchedKind{Kind: kind, What: what})
	}
}

// hears notes that the controller is told of the objects of a kind that it has asked for.
func (w *Controller) hears(what string, handle toolscache.ResourceEventHandlerRegistration) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, k := range w.kinds {
		if k.What == what && k.handle == nil {
			w.kinds[i].handle = handle
			return
		}
	}
}

// Missing returns the kinds whose initial objects have not all come.
func (w *Controller) Missing() []watchedKind {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missing []watchedKind
	for _, k := range w.kinds {
		if k.handle == nil || !k.handle.HasSynced() {
			missing = append(missing, k)
		}
	}
	return missing
}

// Progress reports whether the sources of the controller were started, and whether all of them have delivered.
func (w *Controller) Progress() (begun, synced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun, w.synced
}
