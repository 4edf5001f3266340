// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"context"
	"fmt"
	"net/http"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"go.uber.org/fx"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/internal/writegate"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/deletions"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Run is one life of a hub part: an epoch with the hub in place of the remote, and a manager, cache and clients of its
// own.
type Run struct {
	*app.Life
	// OwnScheme is a copy of the hub's, to which invokes may add kinds.
	OwnScheme *runtime.Scheme
	part      *part
	hooks     Callbacks
	parents   evidence.Judge

	manager ctrl.Manager    // set when the App is built
	halted  context.Context //nolint:containedctx // Ends when the manager has to end.
	halt    context.CancelFunc
	turn    atomic.Pointer[turn] // in which it runs; nil before that
	denied  chan struct{}        // capacity 1: a watch was forbidden
	quiet   chan struct{}        // closed when all runnables have ended
	begun   atomic.Bool          // it is run
	ready   bool                 // it ran; used only by the goroutine that runs the life
}

func newLife(p *part) *Run {
	host, name, number := p.supervisor.Host, p.module.Name, p.supervisor.NextEpoch()
	l := &Run{part: p, OwnScheme: copyScheme(host.Scheme), quiet: make(chan struct{}), denied: make(chan struct{}, 1)}
	l.Life = app.NewLife(host, app.LifeOptions{
		Number: number, Log: p.log.WithValues("epoch", number), ModuleNames: []string{name},
		Timeout:    state.Desired{}.WithDefaults().Client.Timeout,
		Collectors: app.NewRegisterer(host.Registerer),
		Changed:    p.changed, Missed: l.askAgain, Undeclared: p.module.Undeclared, ControllerAdded: l.watchProgress,
	}, "hubpart", name)
	l.parents = evidence.Judge{Scheme: l.OwnScheme, Homes: l.homes, Timeout: l.Timeout}
	l.halted, l.halt = context.WithCancel(l.Context())
	l.hooks = p.module.Begin(l)
	return l
}

// Guard returns the guard of the module.
func (l *Run) Guard() *contain.Container { return l.Life.Guard(l.part.module.Name) }

// SetDegraded records that the module runs and lacks something; an empty reason ends that.
func (l *Run) SetDegraded(reason, message string) { l.part.reports(l, reason, message) }

// Values are the values that a Life makes before it builds the graph. The manager has the others.
func (l *Run) Values() (ctrl.Manager, *rest.Config) { return l.manager, l.Contained().Config }

// Scope returns the module's options in a scope whose logger, manager and lifecycle know the module. The zero app.Life
// only checks the graph.
func (l *Run) Scope(module string, options ...fx.Option) fx.Option {
	wrap := func(mgr ctrl.Manager) ctrl.Manager { return &lifeManager{Manager: mgr, life: l} }
	return app.Scope(l.Life, module, wrap, options...)
}

func (l *Run) start() {
	if l.Built() == nil {
		l.Build(func() error {
			pprof.SetGoroutineLabels(l.Context())
			if err := l.connect(); err != nil {
				return err
			}
			return l.BuildGraph(l.hooks.Graph())
		})
	}
}

// connect sends no request.
func (l *Run) connect() error {
	config := l.config()
	l.Contained().Config = config
	hub, err := cluster.New(config, l.clusterOptions)
	if err != nil {
		return fmt.Errorf("build the manager: %w", err)
	}
	l.manager = l.NewManager(hub, l.Log.V(1), l.Log)
	l.SetRecorder(l.manager)
	return nil
}

// config has the fence of this life, and the module's name on every request.
func (l *Run) config() *rest.Config {
	config := rest.CopyConfig(l.Hub)
	config.UserAgent = fmt.Sprintf("clusterfx/%s/hub/%s/%d", l.Replica, l.part.module.Name, l.Number)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		if l.part.module.Turn != nil { // No layer waits between this gate and the connection.
			next = &writegate.Gate{Next: next, Check: l.mayWrite, Count: l.part.module.Turn.Count, Refuse: transport.RefuseWrite}
		}
		return &fencedTransport{next: next, fence: l.Context(), deletes: l.decideDeletes}
	})
	return config
}

// Limiter counts deletes of entities as those in the hub.
func (l *Run) Limiter() deletions.Limiter {
	return deletions.Limiter{Guard: l.Deletes, Target: deletions.Target{Judge: &l.parents}}
}

func (l *Run) decideDeletes(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	return l.Deletes.RoundTrip(l.Limiter().Target, r, send)
}

// homes is the hub, where alone a hub part deletes.
func (l *Run) homes() []evidence.Home {
	return []evidence.Home{{Objects: l.HubPlace.Reader, Place: l.HubPlace}}
}

func (l *Run) clusterOptions(o *cluster.Options) {
	if base := l.part.supervisor.ManagerOptions; base != nil {
		shared := base()
		o.Cache, o.Client, o.NewClient = shared.Cache, shared.Client, shared.NewClient
	}
	o.Scheme, o.Logger = l.OwnScheme, l.Log.V(1)
	o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return l.HubMapper, nil }
	o.NewCache = l.NewCache
	for _, namespace := range l.part.module.Namespaces {
		if o.Cache.DefaultNamespaces == nil {
			o.Cache.DefaultNamespaces = map[string]cache.Config{}
		}
		o.Cache.DefaultNamespaces[namespace] = cache.Config{}
	}
}

func (l *Run) stale() (string, state.Problem) {
	if l == nil {
		return "", state.Problem{}
	}
	stale := l.Stale(time.Now())
	if len(stale) == 0 {
		return "", state.Problem{}
	}
	return state.Sanitize(stale[0].Message()), stale[0].Problem
}

// run returns the cause when the life fails or its turn is over; done closes when all its goroutines have ended.
func (l *Run) run(t turn) error {
	l.turn.Store(&t)
	err := l.runUntil(t.work)
	l.part.supervisor.running.Go(func() { l.cleanUp(t.hub) })
	return err
}

func (l *Run) runUntil(ctx context.Context) error {
	l.begun.Store(true)
	l.part.supervisor.running.Go(func() {
		select {
		case <-l.part.supervisor.elected:
			l.Permit()
		case <-l.Context().Done():
		}
	})
	cut := context.AfterFunc(ctx, func() { l.Stop(app.ErrStopped) })
	if err := l.awaitRights(); err != nil {
		return err
	}
	l.start()
	if err := l.AwaitGraph(); err != nil {
		return err
	}
	if err := l.StartHooks(); err != nil {
		return err
	}
	if !cut() {
		return context.Cause(l.Context())
	}
	defer context.AfterFunc(ctx, l.halt)()
	l.StartManager(l.halted, l.manager)
	if err := l.AwaitSync(l.halted, l.manager); err != nil {
		return err
	}
	l.ready = true
	l.part.supervisor.running.Go(l.watchRights)
	l.part.publish(l)
	l.part.changed()
	return l.AwaitFailure(l.halted)
}

// cleanUp returns when all goroutines have ended. At the end of the hub the hooks wait for the apps, which may use
// values that they close.
func (l *Run) cleanUp(hub context.Context) {
	defer l.Finish()
	l.halt()
	if hub.Err() == nil {
		l.Stop(app.ErrStopped)
		l.AwaitManager(l.Limits.StopTimeout / 2)
	} else {
		l.AwaitManager(app.Never)
	}
	l.Revoke(0)
	close(l.quiet)
	ctx, cancel := l.part.supervisor.timeOfHooks(hub)
	if err := l.StopHooks(ctx); err != nil {
		l.Log.Error(err, "A hub part did not stop cleanly")
	}
	cancel()
	l.Stop(app.ErrStopped)
}

func (l *Run) controllers() []state.ControllerStatus {
	for _, m := range l.Modules() {
		if m.Name == l.part.module.Name {
			return m.Controllers
		}
	}
	return nil
}
