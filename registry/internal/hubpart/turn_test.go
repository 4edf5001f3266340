// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/deletions"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// turns is a Turn that begins and ends when its test says so.
type turns struct {
	begun chan context.Context
	shut  atomic.Bool
	works atomic.Int64
}

func (s *turns) Await(ctx context.Context) (context.Context, func(), error) {
	select {
	case lasts := <-s.begun:
		return lasts, func() { s.works.Add(-1) }, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

func (s *turns) Count() func() { return func() {} }

func (s *turns) Check() error {
	if s.shut.Load() {
		return app.ErrStandby
	}
	return nil
}

// begin begins a turn. The result ends it.
func (s *turns) begin(t *testing.T) (end func()) {
	t.Helper()
	lasts, end := context.WithCancel(context.WithoutCancel(t.Context()))
	s.works.Add(1)
	s.begun <- lasts
	return end
}

// parts is a hub with the part of one module, whose runnable is that of the test.
type parts struct {
	*Supervisor

	turns *turns
	lives chan *Run // whose runnables have begun
	end   func()    // ends the hub

	published atomic.Int64 // Ready calls less Ended calls
}

func (l *Run) values() (
	logr.Logger, ctrl.Manager, client.Client, *rest.Config, cluster.Cluster, cache.Cache, prometheus.Registerer, deletes.Limiter,
) {
	m := l.Manager
	return logr.Discard(), m, m.GetClient(), l.Contained.Config, m, m.GetCache(), l.Collectors, l.Limiter(nil)
}

// begin starts a hub in a bubble. Its API server accepts all.
func begin(t *testing.T, turn *turns, runs func(context.Context, *Run) error, options ...fx.Option) *parts {
	t.Helper()
	p := &parts{turns: turn, lives: make(chan *Run, 10)}
	registerer := prometheus.NewRegistry()
	accepts := testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	})
	m := Module{Name: "one", Begin: func(l *Run) Callbacks {
		invoke := fx.Invoke(func(m ctrl.Manager) error {
			return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
				p.lives <- l
				return runs(ctx, l)
			}))
		})
		return Callbacks{
			Graph: func() fx.Option {
				return fx.Options(l.GraphOptions(), fx.Provide(l.values), l.Scope("one", append(options, invoke)...))
			},
			Built: func() error { return nil },
			Ready: func() { p.published.Add(1) }, Ended: func() { p.published.Add(-1) },
		}
	}}
	if turn != nil {
		turn.begun, m.Turn = make(chan context.Context), turn
	}
	scheme, number := runtime.NewScheme(), int64(0)
	p.Supervisor = New(Options{
		Host: &app.Common{
			Root: context.WithoutCancel(t.Context()), Replica: "a", Scheme: scheme, Schemas: meter.NewSchemas(scheme),
			Hub: &rest.Config{Host: "http://hub", Transport: accepts}, HubMapper: meta.NewDefaultRESTMapper(nil),
			Registerer: registerer, Metrics: telemetry.NewMetrics(registerer, false), Queues: contain.NewQueues(),
			Deletes: deletions.New(deletions.Options{Store: deletions.MemoryStore{}, Module: func(context.Context) string { return "one" }}),
			Limits:  app.Limits{StartTimeout: time.Minute, SyncTimeout: time.Minute, StopTimeout: time.Second, MaxObjects: 1000, MaxCacheBytes: 1 << 30},
		},
		Log: logr.Discard(), Modules: []Module{m}, NextEpoch: func() int64 { number++; return number },
		Explain: func(message string, _ state.Problem) string { return message },
	})
	ctx, stop := context.WithCancel(t.Context())
	testkit.Must(t, p.OnStart(ctx))
	var running sync.WaitGroup
	for _, f := range []func(context.Context) error{p.Start, p.Leading().Start} {
		running.Go(func() { testkit.NoError(t, f(ctx)) })
	}
	p.end = sync.OnceFunc(func() {
		stop()
		running.Wait()
		testkit.NoError(t, p.OnStop(context.WithoutCancel(ctx)))
	})
	return p
}

// expect waits until nothing happens without time, and compares the state of the part.
func (p *parts) expect(t *testing.T, want, reason string, restarts, zombies int) {
	t.Helper()
	synctest.Wait()
	one := p.List()[0]
	if one.State != want || one.Reason != reason || one.Restarts != restarts || one.Zombies != zombies {
		t.Fatalf("got %+v, want %s for %s with %d restarts and %d zombies", one, want, reason, restarts, zombies)
	}
	testkit.Equal(t, p.published.Load() == 1, want == state.ModuleRunning || want == state.ModuleDegraded, "its values are published")
}

func (p *parts) expectRunning(t *testing.T) {
	t.Helper()
	p.expect(t, state.ModuleRunning, state.ReasonRunning, 0, 0)
}

func (p *parts) expectStandby(t *testing.T, zombies int) {
	t.Helper()
	p.expect(t, state.ModuleStandby, state.ReasonStandby, 0, zombies)
	testkit.Equal(t, len(p.lives), 0, "lives without a turn")
}

func runsOn(ctx context.Context, _ *Run) error {
	<-ctx.Done()
	return nil
}

// send sends a request as the life.
func send(t *testing.T, l *Run, method, path string) (status int, err error) {
	t.Helper()
	via, err := rest.TransportFor(l.Contained.Config)
	testkit.Must(t, err)
	response, err := via.RoundTrip(testkit.Request(t, method, "http://hub"+path))
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func write(t *testing.T, l *Run) error {
	t.Helper()
	return testkit.Err(send(t, l, http.MethodPost, "/api/v1/namespaces"))
}

// A part has a life for each turn, and waits otherwise, which is no failure. It writes in the turn of its life only, and only while
// its gate is open; it reads in any case. Events outside of the turn are dropped.
func TestTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := begin(t, &turns{}, runsOn)
		defer p.end()
		var earlier *Run
		for range 3 {
			p.expectStandby(t, 0)
			end := p.turns.begin(t)
			p.expectRunning(t)
			l := <-p.lives
			testkit.Has(t, l.Contained.Config.UserAgent, "/hub/one/")
			for _, shut := range []bool{false, true, false} {
				p.turns.shut.Store(shut)
				testkit.ErrorIs(t, write(t, l), map[bool]error{true: app.ErrStandby}[shut], "a write")
				testkit.NoError(t, testkit.Err(send(t, l, http.MethodGet, "/api/v1/namespaces")), "a read")
				status, err := send(t, l, http.MethodPost, "/apis/events.k8s.io/v1/namespaces/default/events")
				if err != nil || (status == http.StatusForbidden) != shut {
					t.Errorf("an event: got %d, %v, want that it is dropped is %t", status, err, shut)
				}
			}
			if earlier != nil {
				testkit.ErrorIs(t, write(t, earlier), app.ErrStopped, "a write of an earlier life")
			}
			earlier = l
			end()
		}
		p.expectStandby(t, 0)
		testkit.Equal(t, p.turns.works.Load(), 0, "turns whose work has not ended")
	})
}

// A life that fails because its writes are refused has not failed: the next one begins when the gate is open.
func TestTurn_Refused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := begin(t, &turns{}, func(ctx context.Context, l *Run) error {
			for ctx.Err() == nil {
				if err := write(t, l); err != nil {
					return err
				}
				<-time.After(time.Second)
			}
			return nil
		})
		defer p.end()
		p.turns.begin(t)
		p.expectRunning(t)
		<-p.lives
		p.turns.shut.Store(true)
		<-time.After(time.Minute)
		p.expectStandby(t, 0)
		p.turns.shut.Store(false)
		<-p.lives
		p.expectRunning(t)
	})
}

// A life that does not end with its turn is left behind: it writes nothing, also in the next turn, and its turn counts as ended when
// it ends. With three of them there is no further life.
func TestTurn_Zombies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := begin(t, &turns{}, func(ctx context.Context, _ *Run) error {
			<-release
			<-ctx.Done()
			return nil
		})
		defer p.end()
		var zombies []*Run
		for i := range 3 {
			end := p.turns.begin(t)
			p.expect(t, state.ModuleRunning, state.ReasonRunning, 0, i)
			for _, zombie := range zombies {
				testkit.ErrorIs(t, write(t, zombie), app.ErrStopped, "a write of a zombie")
			}
			zombies = append(zombies, <-p.lives)
			end()
			<-time.After(time.Minute)
			p.expectStandby(t, i+1)
		}
		testkit.Equal(t, p.turns.works.Load(), 3, "turns whose work has not ended while their lives have not")
		p.turns.begin(t)
		p.expect(t, state.ModuleFailed, state.ReasonModuleFailed, 0, 3)
		testkit.Has(t, p.List()[0].Message, "3 earlier lives of the hub part have not ended")
		testkit.Equal(t, len(p.lives), 0, "lives beside three zombies")
		close(release)
		<-p.lives
		p.expectRunning(t)
	})
}

// When the hub ends during a turn, the hooks of the part run in the turn, and can still write. A hub that never has a turn ends, too.
func TestTurn_EndOfHub(t *testing.T) {
	t.Parallel()
	for _, takes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var p *parts
			var life *Run
			hooks := 0
			p = begin(t, &turns{}, runsOn, fx.Invoke(func(l fx.Lifecycle) {
				l.Append(fx.StopHook(func() error {
					hooks++
					return write(t, life)
				}))
			}))
			p.expectStandby(t, 0)
			if takes {
				p.turns.begin(t)
				life = <-p.lives
				p.expectRunning(t)
			}
			p.end()
			testkit.Equal(t, p.turns.works.Load(), 0, "turns whose work has not ended")
			testkit.Equal(t, hooks == 1, takes, "the hooks have run")
		})
	}
}

// A part that reports what it lacks is Degraded until it reports that the lack has ended, or until its life ends. A life that fails
// is followed by another one.
func TestRun_SetDegraded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fail := make(chan error)
		p := begin(t, nil, func(ctx context.Context, _ *Run) error {
			select {
			case err := <-fail:
				return err
			case <-ctx.Done():
				return nil
			}
		})
		defer p.end()
		p.expectRunning(t)
		first := <-p.lives
		first.SetDegraded("NoDatabase", "the database is away")
		p.expect(t, state.ModuleDegraded, "NoDatabase", 0, 0)
		first.SetDegraded("", "")
		p.expectRunning(t)
		first.SetDegraded("NoDatabase", "the database is away")
		fail <- errors.New("the end")
		p.expect(t, state.ModuleFailed, state.ReasonModuleFailed, 1, 0)
		<-p.lives
		p.expect(t, state.ModuleRunning, state.ReasonRunning, 1, 0)
		first.SetDegraded("NoDatabase", "of an earlier life")
		p.expect(t, state.ModuleRunning, state.ReasonRunning, 1, 0)
		testkit.ErrorIs(t, testkit.Err(send(t, first, http.MethodGet, "/api/v1/namespaces")), app.ErrStopped, "a read of an earlier life")
	})
}
