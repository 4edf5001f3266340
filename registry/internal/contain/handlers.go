// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"fmt"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// Handlers finds the event handlers of an app's informers that do not return.
type Handlers struct {
	app *App

	mu  sync.Mutex // protects the fields
	all map[toolscache.ResourceEventHandlerRegistration]*containedHandler
}

// NewHandlers returns a watch over no handlers.
func NewHandlers(app *App) *Handlers { return &Handlers{app: app} }

func (h *Handlers) add(handle toolscache.ResourceEventHandlerRegistration, one *containedHandler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[toolscache.ResourceEventHandlerRegistration]*containedHandler{}
	}
	h.all[handle] = one
}

func (h *Handlers) remove(handle toolscache.ResourceEventHandlerRegistration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, handle)
}

// Check fails the modules of handlers that do not return. It is called when objects have arrived, so that there is more for
// a handler to do, and notices a call that two checks find in progress with more than limit between them.
func (h *Handlers) Check() {
	for _, one := range h.stuck(time.Now()) {
		one.guard.log.Info("An event handler does not return", "goroutines", h.app.Goroutines())
		one.guard.fail(fmt.Errorf("stuck: an event handler has not returned for %s", h.app.ReconcileTimeout))
	}
}

func (h *Handlers) stuck(now time.Time) []*containedHandler {
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
