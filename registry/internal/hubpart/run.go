// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"context"
	"fmt"
	"net/http"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/internal/writegate"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Run is one life of a hub part: an App with the hub in place of the remote, and a manager, cache and clients of its
// own. Its Scheme is a copy of the hub's, to which invokes may add kinds.
type Run struct {
	*app.Life
	part  *part
	hooks Callbacks

	halted context.Context //nolint:containedctx // Ends when the manager has to end.
	halt   context.CancelFunc
	turn   atomic.Pointer[turn] // in which it runs; nil before that
	denied chan struct{}        // capacity 1: a watch was forbidden
	quiet  chan struct{}        // closed when all runnables have ended
	begun  atomic.Bool          // it is run
	ready  bool                 // it ran; used only by the goroutine that runs the life
}

func newLife(p *part) *Run {
	host, number := *p.supervisor.Host, p.supervisor.NextEpoch()
	host.Scheme = runtime.NewScheme() // It may get kinds while that of the hub is read.
	addKinds(host.Scheme, p.supervisor.Host.Scheme)
	l := &Run{part: p, quiet: make(chan struct{}), denied: make(chan struct{}, 1)}
	l.Life = app.New(&host, app.Options{
		Number: number, Log: p.log.WithValues("epoch", number), ModuleNames: []string{p.module.Name},
		Desired: state.Desired{Namespaces: p.module.Namespaces}.WithDefaults(),
		Changed: p.changed, Missed: l.askAgain, Undeclared: p.module.Undeclared, Monitor: p.supervisor.Monitor,
	})
	l.halted, l.halt = context.WithCancel(l.Context())
	l.hooks = p.module.Begin(l)
	return l
}

// Guard returns the guard of the module.
func (l *Run) Guard() *contain.Container { return l.Life.Guard(l.part.module.Name) }

// SetDegraded records that the module runs and lacks something; an empty reason ends that.
func (l *Run) SetDegraded(reason, message string) { l.part.reports(l, reason, message) }

func (l *Run) start() {
	if l.Building == nil {
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
	l.Contained.Config = l.config()
	err := l.MakeManager(l.Contained.Config, l.HubMapper, l.Log, func(o *cluster.Options) {
		if base := l.part.supervisor.ManagerOptions; base != nil {
			shared := base()
			o.Cache, o.Client, o.NewClient = shared.Cache, shared.Client, shared.NewClient
		}
	})
	l.Manager = &lifeManager{Manager: l.Manager, life: l}
	return err
}

// config has the fence of this life, and the module's name on every request.
func (l *Run) config() *rest.Config {
	config := rest.CopyConfig(l.Hub)
	config.UserAgent = fmt.Sprintf("clusterfx/%s/hub/%s/%d", l.Replica, l.part.module.Name, l.Number)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		if l.part.module.Turn != nil { // No layer waits between this gate and the connection.
			next = &writegate.Gate{Next: next, Check: l.mayWrite, Count: l.part.module.Turn.Count, Refuse: transport.RefuseWrite}
		}
		fenced := &fencedTransport{next: next, fence: l.Context(), deletes: l.Deleting()}
		if l.HubMiddleware != nil {
			return l.HubMiddleware("", fenced)
		}
		return fenced
	})
	return config
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
			l.Release()
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
	l.StartManager(l.halted)
	if err := l.AwaitSync(l.halted); err != nil {
		return err
	}
	l.ready = true
	l.part.supervisor.running.Go(l.watchRights)
	l.hooks.Ready()
	l.part.override(state.ModuleStatus{})
	return l.AwaitFailure(l.halted)
}

// cleanUp returns when all goroutines have ended. At the end of the hub the hooks wait for the apps, which may use
// values that they close.
func (l *Run) cleanUp(hub context.Context) {
	defer l.Finish()
	l.halt()
	if hub.Err() == nil {
		l.Stop(app.ErrStopped)
		l.Managing.Wait(l.Limits.StopTimeout / 2)
	} else {
		l.Managing.Wait(app.Never)
	}
	l.Contained.Gate.Close(0)
	close(l.quiet)
	ctx, cancel := l.part.supervisor.timeOfHooks(hub)
	if err := l.StopHooks(ctx); err != nil {
		l.Log.Error(err, "A hub part did not stop cleanly")
	}
	cancel()
	l.Stop(app.ErrStopped)
}
