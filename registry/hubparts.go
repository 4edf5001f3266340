// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
)

// hubParts runs the hub parts of all modules, each by itself: in an App of its own, with a manager, a cache, clients
// and a handle of the Registry of its own. A missing permission or a failure of one hub part does not affect the
// others.
//
// The parts are built before the hub's manager starts, so that everything that starts later knows the kinds that they
// add to the scheme. They start with the manager, also on a standby; runnables that need leader election wait until
// the hub leads. At the end their runnables stop first, and their hooks run when all apps have ended.
type hubParts struct {
	*environment
	registry   *Registry
	manager    ctrl.Manager // the hub's
	options    Options
	log        logr.Logger
	shutdowner fx.Shutdowner
	all        []*hubPart
	site       site

	prepared  sync.Once
	bracketed atomic.Bool // the hub's App runs the hooks
	running   sync.WaitGroup
	elected   chan struct{} // closed when this hub leads

	mu      sync.Mutex      // protects the fields
	closing context.Context //nolint:containedctx // In which the hooks run at the end.
	closed  chan struct{}   // closed when closing is set
}

func newHubParts(p Params, r *Registry, o Options) (*hubParts, error) {
	h := &hubParts{
		environment: r.environment, registry: r, manager: p.Manager, options: o, log: RedactingLogger(p.Log, r.secrets), shutdowner: p.Shutdowner,
		elected: make(chan struct{}), closed: make(chan struct{}),
	}
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("check the modules: %w", err)
	}
	for i := range h.modules {
		if h.modules[i].options.Hub != nil {
			h.all = append(h.all, newHubPart(h, &h.modules[i]))
		}
	}
	r.hearts.Notify(h.beaten)
	return h, nil
}

// prepareWithin is how long the hub waits at its start until the hub parts are built.
const prepareWithin = 5 * time.Second

// prepare builds the first life of every part, each in a goroutine of its own, and returns when that is done or takes
// too long.
func (h *hubParts) prepare() {
	h.prepared.Do(func() {
		patience := time.NewTimer(prepareWithin)
		defer patience.Stop()
		late := false
		for _, p := range h.all {
			p.next().start()
		}
		for _, p := range h.all {
			life := p.current()
			if !late {
				select {
				case <-life.Built():
				case <-patience.C:
					late = true
				}
			}
			if !isDone(life.Built()) {
				continue
			}
			if err := panics.Catch(func() error { addKinds(h.host.Scheme, life.scheme); return nil }); err != nil {
				p.log.Error(err, "Failed to add the kinds of a hub part to the scheme; only the hub part knows them")
			}
			if err := h.addMiddleware(life); err != nil {
				p.log.Error(err, "Failed to apply the middleware of a hub part")
			}
		}
	})
}

// addMiddleware applies the middleware of a hub part that is built. The middleware stays in force when the part ends,
// and while the part is started again.
func (h *hubParts) addMiddleware(life *partLife) error {
	if life.BuildError() != nil || len(life.middleware) == 0 {
		return nil //nolint:nilerr // The state of the part has the error.
	}
	return h.middleware.Add(middlewareOf(life.middleware))
}

func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Start runs the parts until ctx ends.
func (h *hubParts) Start(ctx context.Context) error {
	h.prepare()
	var parts sync.WaitGroup
	for _, p := range h.all {
		parts.Add(1)
		h.running.Go(func() {
			defer parts.Done()
			p.run(ctx, p.current())
		})
	}
	parts.Wait()
	if !h.bracketed.Load() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.host.Limits.StopTimeout)
		defer cancel()
		return h.end(ctx)
	}
	return nil
}

// NeedLeaderElection is false: parts run on a standby, too.
func (h *hubParts) NeedLeaderElection() bool { return false }

// leading returns a runnable that lets the parts work while this hub leads, and that ends when all of their runnables
// have ended.
func (h *hubParts) leading() manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		close(h.elected)
		<-ctx.Done()
		for _, p := range h.all {
			if life := p.current(); life != nil {
				<-life.quiet
			}
		}
		return nil
	})
}

// timeOfHooks returns the context in which the hooks of a life that ends are run. When the hub ends, it waits until
// the hub's App calls end.
func (h *hubParts) timeOfHooks(hub context.Context) (context.Context, context.CancelFunc) {
	if hub.Err() == nil {
		return context.WithTimeout(context.WithoutCancel(hub), h.host.Limits.StopTimeout/2)
	}
	<-h.closed
	h.mu.Lock()
	defer h.mu.Unlock()
	return context.WithCancel(h.closing)
}

// end runs the hooks of the parts, and returns when all goroutines of the parts have ended, or shortly before the
// deadline of ctx with an error that names the parts that have not ended.
func (h *hubParts) end(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)*3/4)
		defer cancel()
	}
	h.mu.Lock()
	if h.closing == nil {
		h.closing = ctx
		close(h.closed)
	}
	h.mu.Unlock()
	for _, p := range h.all { // lives that were built and never ran
		if life := p.current(); life != nil && !life.begun.Load() {
			life.Stop(ErrStopped)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.running.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	return fmt.Errorf("hub parts that have not ended in time: %s", strings.Join(h.left(), ", "))
}

// left names the parts that have not ended.
func (h *hubParts) left() []string {
	var names []string
	for _, p := range h.all {
		life := p.current()
		if life != nil && !isDone(life.Done()) {
			names = append(names, p.entry.name)
			p.log.Info("A hub part does not end", "goroutines", life.Contained().Goroutines())
		}
	}
	return names
}

// changed is called after a change of the state of a part.
func (h *hubParts) changed() {
	if told := h.options.HubParts.Changed; told != nil {
		told()
	}
}

// HubParts returns the state of the hub part of every module that has one, in the order of the modules. It returns
// nothing for a registry without FX.
func (r *Registry) HubParts() []HubPartStatus {
	if r.parts == nil {
		return nil
	}
	var all []HubPartStatus
	for _, p := range r.parts.all {
		all = append(all, p.info())
	}
	return all
}

// hubPartStates returns the states of the hub parts for the metrics.
func (r *Registry) hubPartStates() []telemetry.HubPart {
	var all []telemetry.HubPart
	for _, one := range r.HubParts() {
		all = append(all, telemetry.HubPart{Module: one.Module, State: one.State, Zombies: one.Zombies})
	}
	return all
}
