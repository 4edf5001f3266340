// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"fmt"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// Handlers are the event handlers of an app; Check finds those that do not return.
type Handlers struct {
	app *App

	mu  sync.Mutex // protects the fields
	all map[toolscache.ResourceEventHandlerRegistration]*eventHandler
}

// NewHandlers returns an empty set of the handlers of an app.
func NewHandlers(app *App) *Handlers { return &Handlers{app: app} }

func (h *Handlers) add(handle toolscache.ResourceEventHandlerRegistration, one *eventHandler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[toolscache.ResourceEventHandlerRegistration]*eventHandler{}
	}
	h.all[handle] = one
}

func (h *Handlers) remove(handle toolscache.ResourceEventHandlerRegistration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, handle)
}

// Check fails the modules of stuck handlers: two checks find the same call, more than a ReconcileTimeout apart. The
// cache calls it after objects have arrived, so that more events wait.
func (h *Handlers) Check() {
	for _, one := range h.stuck(time.Now()) {
		one.guard.log.Info("An event handler does not return", "goroutines", h.app.Goroutines())
		one.guard.fail(fmt.Errorf("stuck: an event handler has not returned for %s", h.app.ReconcileTimeout))
	}
}

func (h *Handlers) stuck(now time.Time) []*eventHandler {
	h.mu.Lock()
	defer h.mu.Unlock()
	var stuck []*eventHandler
	for _, one := range h.all {
		if one.stuckFor(now) > h.app.ReconcileTimeout {
			stuck = append(stuck, one)
		}
	}
	return stuck
}
