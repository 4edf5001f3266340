// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry/internal/boundcache"
	"github.com/clusterfx/clusterfx/registry/state"
)

// unnamed is what a controller is called that has no name.
const unnamed = "controller"

// watcher is one controller of a module: which kinds it watches, and of which of them it has not been told all
// initial objects yet.
type watcher struct {
	name       string
	supervised bool

	mu     sync.Mutex // protects the fields; held for no longer than a look at a handle
	begun  bool       // its sources were started
	synced bool       // all of them have delivered
	kinds  []watchedKind
}

// watchedKind is a kind that a controller watches.
type watchedKind struct {
	kind   string                                      // as people write it: Deployment.apps
	what   string                                      // as the tracker names what is in the way of it
	handle toolscache.ResourceEventHandlerRegistration // nil until the controller has one
}

// watcherKey is what the context of a controller's sources leads to its watcher by.
type watcherKey struct{}

// watcherOf returns the controller on whose behalf something is done, or nil.
func watcherOf(ctx context.Context) *watcher {
	w, _ := ctx.Value(watcherKey{}).(*watcher)
	return w
}

func (w *watcher) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
}

func (w *watcher) sync() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced, w.kinds = true, nil
}

// watches notes that the controller asks for a kind. A source that gets no informer asks again and again.
func (w *watcher) watches(kind, what string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	open := func(k watchedKind) bool { return k.what == what && k.kind == kind && k.handle == nil }
	if !w.synced && !slices.ContainsFunc(w.kinds, open) {
		w.kinds = append(w.kinds, watchedKind{kind: kind, what: what})
	}
}

// hears notes that the controller is told of the objects of a kind that it has asked for.
func (w *watcher) hears(what string, handle toolscache.ResourceEventHandlerRegistration) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, k := range w.kinds {
		if k.what == what && k.handle == nil {
			w.kinds[i].handle = handle
			return
		}
	}
}

// missing returns the kinds whose initial objects have not all come.
func (w *watcher) missing() []watchedKind {
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

// info says how far the controller is. blocks are what is known to be in the way of kinds.
func (w *watcher) info(blocks map[string]boundcache.Block) state.ControllerStatus {
	w.mu.Lock()
	begun, synced := w.begun, w.synced
	w.mu.Unlock()
	if synced {
		return state.ControllerStatus{Name: w.name, State: state.ModuleRunning}
	}
	one := state.ControllerStatus{Name: w.name, State: state.ModuleStarting, Reason: state.ReasonStarting}
	missing := w.missing()
	var kinds []string
	found := map[string]boundcache.Block{}
	for _, k := range missing {
		kinds = append(kinds, k.kind)
		if b, known := blocks[k.what]; known {
			found[k.what] = b
		}
	}
	slices.Sort(kinds)
	switch worst := worstOf(found); {
	case worst != boundcache.Block{}:
		one.State, one.Reason, one.Message = state.ModuleWaiting, reasonFor(worst), state.Sanitize(worst.Message)
	case len(kinds) > 0:
		one.Message = state.Sanitize("waits for the initial objects of " + strings.Join(slices.Compact(kinds), ", "))
	case begun:
		one.Message = "waits for a source of its own"
	default:
		one.Message = "waits for its turn"
	}
	return one
}

// uniqueName returns the name of a controller as nobody else in the module has it.
func uniqueName(r manager.Runnable, others []*watcher) string {
	base := nameOf(r)
	name := base
	for n := 2; slices.ContainsFunc(others, func(w *watcher) bool { return w.name == name }); n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	return name
}

// nameOf returns the name of a controller. controller-runtime keeps it in a field of a type that nobody can
// name, and has no method for it.
func nameOf(r manager.Runnable) string {
	v := reflect.Indirect(reflect.ValueOf(r))
	if v.Kind() != reflect.Struct {
		return unnamed
	}
	field, ok := v.Type().FieldByName("Name")
	if !ok || len(field.Index) != 1 || field.Type.Kind() != reflect.String || v.FieldByIndex(field.Index).Len() == 0 {
		return unnamed
	}
	return v.FieldByIndex(field.Index).String()
}
