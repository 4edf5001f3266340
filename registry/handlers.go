// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// handlers finds the event handlers of an app's informers that do not return.
type handlers struct {
	app *containedApp

	mu  sync.Mutex // protects the fields
	all map[toolscache.ResourceEventHandlerRegistration]*containedHandler
}

// newHandlers returns a watch over no handlers.
func newHandlers(app *containedApp) *handlers { return &handlers{app: app} }

func (h *handlers) add(handle toolscache.ResourceEventHandlerRegistration, one *containedHandler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[toolscache.ResourceEventHandlerRegistration]*containedHandler{}
	}
	h.all[handle] = one
}

func (h *handlers) remove(handle toolscache.ResourceEventHandlerRegistration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, handle)
}

// check fails the modules of handlers that do not return. It is called when objects have arrived, so that there is more for
// a handler to do, and notices a call that two checks find in progress with more than limit between them.
func (h *handlers) check() {
	for _, one := range h.stuck(time.Now()) {
		one.guard.log.Info("An event handler does not return", "goroutines", h.app.goroutines())
		one.guard.fail(fmt.Errorf("stuck: an event handler has not returned for %s", h.app.ReconcileTimeout))
	}
}

func (h *handlers) stuck(now time.Time) []*containedHandler {
	h.mu.Lock()
	defer h.mu.Unlock()
	var stuck []*containedHandler
	for _, one := range h.all {
		if one.stuckFor(now) > h.app.ReconcileTimeout {
			stuck = append(stuck, one)
		}
	}
	return stuck
}
