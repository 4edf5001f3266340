// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Supervisor runs the hub parts of all modules, each by itself: in an App of its own, with a manager, a cache, clients
// and a handle of the Registry of its own. A missing permission or a failure of one hub part does not affect the
// others.
//
// The parts are built before the hub's manager starts, so that everything that starts later knows the kinds that they
// add to the scheme. They start with the manager, also on a standby; runnables that need leader election wait until
// the hub leads. At the end their runnables stop first, and their hooks run when all apps have ended.
type Supervisor struct {
	Options
	all  []*part
	site site

	prepared  sync.Once
	bracketed atomic.Bool // the hub's App runs the hooks
	running   sync.WaitGroup
	elected   chan struct{} // closed when this hub leads

	mu      sync.Mutex      // protects the fields
	closing context.Context //nolint:containedctx // In which the hooks run at the end.
	closed  chan struct{}   // closed when closing is set
}

// Options describe the hub parts of a hub. All fields but Hearts, Leader, ManagerOptions and Changed are required.
type Options struct {
	// Host has what all Apps share. The Supervisor adds to its Scheme the kinds that hub parts add to theirs.
	Host *app.Host
	// Manager is the manager of the hub.
	Manager ctrl.Manager
	Log     logr.Logger
	// Hearts watches the controllers of the hub parts.
	Hearts *liveness.Monitor
	// NextEpoch returns the number of the next Life, which is unique in the hub.
	NextEpoch func() int64
	// Explain returns a message for the log, with the program's advice about its problem.
	Explain func(message string, problem state.Problem) string
	// Leader elects the replica that runs the parts OnLeader. Default: nil, the hub is alone and runs all parts.
	Leader Leader
	// ManagerOptions returns the options of a part's manager, of which Cache, Client and NewClient are used. Default: nil.
	ManagerOptions func() ctrl.Options
	// Changed is called after a change of the state of a Part. It must return at once. Default: nil.
	Changed func()
	// Pauses are the intervals between two looks at the permissions of the hub.
	Pauses probe.Pauses
	// Modules are the modules that have a hub part.
	Modules []Module
}

// Module is a module that has a hub part.
type Module struct {
	Name string
	// Rules are the permissions in the hub that the module declares.
	Rules []rbac.NamespacedRules
	// Namespaces are the namespaces of the hub that the part's cache is limited to. Default: all.
	Namespaces []string
	// OnLeader means that the part runs in the replica that leads, and otherwise in every replica.
	OnLeader bool
	// Judge returns the function that inspects the responses to the requests of the part, with the status of each.
	Judge func(logr.Logger) func(*http.Request, int)
	// Begin returns the functions that a new Life calls.
	Begin func(*Life) Callbacks
}

// Callbacks are the functions that a Life calls. They must return at once.
type Callbacks struct {
	// Graph returns the options of the graph: the values that the module may ask for, and the module in its scope (see
	// Scope). It is called once, when the values of the Life are made.
	Graph func() fx.Option
	// Built is called if this is the first Life and its graph was built in time.
	Built func() error
	// Ready is called when the Life runs, and Ended when a Life that was ready has ended.
	Ready, Ended func()
}

// New returns a Supervisor that has not started.
func New(o Options) *Supervisor {
	// The hooks of hub parts write after the apps have ended, and with them their Root.
	host := *o.Host
	host.Root = context.WithoutCancel(host.Root)
	o.Host = &host
	s := &Supervisor{Options: o, elected: make(chan struct{}), closed: make(chan struct{})}
	for i := range o.Modules {
		s.all = append(s.all, newPart(s, &s.Modules[i]))
	}
	o.Hearts.Notify(s.beaten)
	return s
}

// OnStart builds the parts. It is a hook of the hub's App, which also runs OnStop.
func (s *Supervisor) OnStart(context.Context) error {
	s.bracketed.Store(true)
	s.prepare()
	return nil
}

// prepareWithin is how long the hub waits at its start until the hub parts are built.
const prepareWithin = 5 * time.Second

// prepare builds the first life of every part, each in a goroutine of its own, and returns when that is done or takes
// too long.
func (s *Supervisor) prepare() {
	s.prepared.Do(func() {
		patience := time.NewTimer(prepareWithin)
		defer patience.Stop()
		late := false
		for _, p := range s.all {
			p.next().start()
		}
		for _, p := range s.all {
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
			s.adopt(p, life)
		}
	})
}

// adopt gives the kinds and the middleware of a life that is built to the hub.
func (s *Supervisor) adopt(p *part, life *Life) {
	if err := panics.Catch(func() error { addKinds(s.Host.Scheme, life.OwnScheme); return nil }); err != nil {
		p.log.Error(err, "Failed to add the kinds of a hub part to the scheme; only the hub part knows them")
	}
	if life.BuildError() != nil {
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

// Leading returns a runnable that lets the parts work while this hub leads, and that ends when all of their runnables
// have ended.
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

// timeOfHooks returns the context in which the hooks of a life that ends are run. When the hub ends, it waits until
// the hub's App calls end.
func (s *Supervisor) timeOfHooks(hub context.Context) (context.Context, context.CancelFunc) {
	if hub.Err() == nil {
		return context.WithTimeout(context.WithoutCancel(hub), s.Host.Limits.StopTimeout/2)
	}
	<-s.closed
	s.mu.Lock()
	defer s.mu.Unlock()
	return context.WithCancel(s.closing)
}

// OnStop runs the hooks of the parts, and returns when all goroutines of the parts have ended, or shortly before the
// deadline of ctx with an error that names the parts that have not ended.
func (s *Supervisor) OnStop(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)*3/4)
		defer cancel()
	}
	s.mu.Lock()
	if s.closing == nil {
		s.closing = ctx
		close(s.closed)
	}
	s.mu.Unlock()
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

// left names the parts that have not ended.
func (s *Supervisor) left() []string {
	var names []string
	for _, p := range s.all {
		life := p.current()
		if life != nil && !isDone(life.Done()) {
			names = append(names, p.module.Name)
			p.log.Info("A hub part does not end", "goroutines", life.Contained().Goroutines())
		}
	}
	return names
}

// changed is called after a change of the state of a part.
func (s *Supervisor) changed() {
	if s.Changed != nil {
		s.Changed()
	}
}

// List returns the state of every Part, in the order of the modules.
func (s *Supervisor) List() []state.HubPartStatus {
	var all []state.HubPartStatus
	for _, p := range s.all {
		all = append(all, p.info())
	}
	return all
}
