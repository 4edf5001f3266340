// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"slices"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// Controller is a controller of a module: what it watches, and which initial objects it lacks.
type Controller struct {
	Name  string
	Added time.Time

	mu     sync.Mutex // protects the fields; held for a few instructions
	begun  bool       // its sources were started
	synced bool       // all of them have delivered their initial objects
	kinds  []WatchedKind
}

// WatchedKind is a kind that a controller watches.
type WatchedKind struct {
	Kind   string                                      // as people write it: Deployment.apps
	Type   string                                      // the type as in Options.Blocked
	handle toolscache.ResourceEventHandlerRegistration // nil until the controller has one
}

type controllerKey struct{}

// WithController returns a context of a controller.
func WithController(ctx context.Context, w *Controller) context.Context {
	return context.WithValue(ctx, controllerKey{}, w)
}

// controllerOf may return nil.
func controllerOf(ctx context.Context) *Controller {
	w, _ := ctx.Value(controllerKey{}).(*Controller)
	return w
}

// Begin notes that its sources are being started.
func (w *Controller) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
}

// MarkSynced notes that the controller has received its initial objects.
func (w *Controller) MarkSynced() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced, w.kinds = true, nil
}

// asks is repeated by a source without an informer.
func (w *Controller) asks(kind, what string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	open := func(k WatchedKind) bool { return k.Type == what && k.Kind == kind && k.handle == nil }
	if !w.synced && !slices.ContainsFunc(w.kinds, open) {
		w.kinds = append(w.kinds, WatchedKind{Kind: kind, Type: what})
	}
}

// receives: the controller has a handler for a kind that it has asked for.
func (w *Controller) receives(what string, handle toolscache.ResourceEventHandlerRegistration) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, k := range w.kinds {
		if k.Type == what && k.handle == nil {
			w.kinds[i].handle = handle
			return
		}
	}
}

// Awaits notes that the controller of a context waits for a source that is no informer of the app's cache. what is the
// type as in Options.Blocked.
func Awaits(ctx context.Context, kind, what string) { controllerOf(ctx).asks(kind, what) }

// Missing returns the kinds whose initial objects the controller has not received.
func (w *Controller) Missing() []WatchedKind {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missing []WatchedKind
	for _, k := range w.kinds {
		if k.handle == nil || !k.handle.HasSynced() {
			missing = append(missing, k)
		}
	}
	return missing
}

// Progress reports whether the sources have started, and whether all have delivered.
func (w *Controller) Progress() (begun, synced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun, w.synced
}
