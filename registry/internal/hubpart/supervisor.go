// SPDX-License-Identifier: Apache-2.0

package hubpart

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

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Supervisor runs the hub parts of all modules; see the package.
type Supervisor struct {
	Options
	all  []*part
	site site

	prepared  sync.Once
	bracketed atomic.Bool // the hub's App runs the hooks
	running   sync.WaitGroup
	elected   chan struct{} // closed when this hub leads

	end     sync.Once       // sets closing
	closing context.Context //nolint:containedctx // In which the hooks run at the end.
	closed  chan struct{}   // closed when closing is set
}

// Options describe the hub parts of a hub. All fields but Monitor and ManagerOptions are required.
type Options struct {
	// Host has what all Apps share. The kinds of hub parts are added to its Scheme.
	Host      *app.Common
	Manager   ctrl.Manager
	Log       logr.Logger
	Monitor   *liveness.Monitor
	NextEpoch func() int64
	Explain   func(message string, problem state.Problem) string
	// ManagerOptions gives Cache, Client and NewClient of a part's manager. Default: nil.
	ManagerOptions func() ctrl.Options
	// Pauses are between two looks at the permissions of the hub.
	Pauses  probe.Pauses
	Modules []Module
}

// Module is a module that has a hub part.
type Module struct {
	Name string
	// Rules are in the hub.
	Rules []rbac.NamespacedRules
	// Namespaces limit the part's cache. Default: all.
	Namespaces []string
	// Turn says when the part has lives. Default: nil, while the hub runs.
	Turn Turn
	// Undeclared explains why informers of the part are refused.
	Undeclared cache.Undeclared
	Begin      func(*Run) Callbacks
}

// Callbacks are the functions that a Life calls. They must return at once.
type Callbacks struct {
	// Graph returns the values for the module, and the module in its scope. It is called once, after the manager is made.
	Graph func() fx.Option
	// Built follows the first Life, if its graph was built in time.
	Built        func() error
	Ready, Ended func()
}

// New returns a Supervisor that has not started.
func New(o Options) *Supervisor {
	// The hooks of hub parts write after the apps, and with them their Root, have ended.
	host := *o.Host
	host.Root = context.WithoutCancel(host.Root)
	o.Host = &host
	s := &Supervisor{Options: o, elected: make(chan struct{}), closed: make(chan struct{})}
	s.site.slots = map[string]slot{}
	for i := range o.Modules {
		s.all = append(s.all, newPart(s, &s.Modules[i]))
	}
	o.Monitor.Notify(s.progress)
	return s
}

// OnStart builds the parts. It is a hook of the hub's App, as OnStop is.
func (s *Supervisor) OnStart(context.Context) error {
	s.bracketed.Store(true)
	s.prepare()
	return nil
}

// prepareWithin is how long the hub waits at its start for hub parts.
const prepareWithin = 5 * time.Second

// prepare builds the first life of every part, each in its goroutine, and returns when that is done or takes too long.
func (s *Supervisor) prepare() {
	s.prepared.Do(func() {
		late := make(chan struct{})
		defer time.AfterFunc(prepareWithin, func() { close(late) }).Stop()
		for _, p := range s.all {
			p.next().start()
		}
		for _, p := range s.all {
			life := p.current()
			select {
			case <-life.Building.Done:
			case <-late:
			}
			if isDone(life.Building.Done) {
				s.adopt(p, life)
			}
		}
	})
}

// adopt gives kinds and middleware of a built life to the hub.
func (s *Supervisor) adopt(p *part, life *Run) {
	if err := panics.Catch(func() error { addKinds(s.Host.Scheme, life.Scheme); return nil }); err != nil {
		p.log.Error(err, "Failed to add the kinds of a hub part to the scheme; only the hub part knows them")
	}
	if life.Building.Err != nil {
		return // The state of the part has the error.
	}
	if err := life.hooks.Built(); err != nil {
		p.log.Error(err, "Failed to apply the middleware of a hub part")
	}
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
func (s *Supervisor) Start(ctx context.Context) error {
	s.prepare()
	var parts sync.WaitGroup
	for _, p := range s.all {
		parts.Add(1)
		s.running.Go(func() {
			defer parts.Done()
			p.run(ctx, p.current())
		})
	}
	parts.Wait()
	if !s.bracketed.Load() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Host.Limits.StopTimeout)
		defer cancel()
		return s.OnStop(ctx)
	}
	return nil
}

// NeedLeaderElection is false: parts run on a standby, too.
func (s *Supervisor) NeedLeaderElection() bool { return false }

// Leading returns a runnable that lets the parts work while this hub leads, and ends after all their runnables.
func (s *Supervisor) Leading() manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		close(s.elected)
		<-ctx.Done()
		for _, p := range s.all {
			if life := p.current(); life != nil {
				<-life.quiet
			}
		}
		return nil
	})
}

// timeOfHooks gives a context for hooks. At the end of the hub it waits until the hub's App calls end.
func (s *Supervisor) timeOfHooks(hub context.Context) (context.Context, context.CancelFunc) {
	if hub.Err() == nil {
		return context.WithTimeout(context.WithoutCancel(hub), s.Host.Limits.StopTimeout/2)
	}
	<-s.closed
	return context.WithCancel(s.closing)
}

// OnStop runs the hooks of the parts, and returns when all their goroutines have ended, or shortly before the deadline
// of ctx with an error that names those that have not.
func (s *Supervisor) OnStop(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)*3/4)
		defer cancel()
	}
	s.end.Do(func() {
		s.closing = ctx
		close(s.closed)
	})
	for _, p := range s.all { // lives that were built and never ran
		if life := p.current(); life != nil && !life.begun.Load() {
			life.Stop(app.ErrStopped)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	left := s.left()
	for _, p := range s.all {
		if life := p.current(); life != nil {
			life.Stop(app.ErrStopped)
		}
	}
	return fmt.Errorf("hub parts that have not ended in time: %s", strings.Join(left, ", "))
}

func (s *Supervisor) left() []string {
	var names []string
	for _, p := range s.all {
		life := p.current()
		if life != nil && !isDone(life.Done()) {
			names = append(names, p.module.Name)
			p.log.Info("A hub part does not end", "goroutines", life.Contained.Goroutines())
		}
	}
	return names
}

// List returns the state of every Part, in the order of the modules.
func (s *Supervisor) List() []state.HubPartStatus {
	var all []state.HubPartStatus
	for _, p := range s.all {
		all = append(all, p.info())
	}
	return all
}
