// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/registry/internal/app"
)

// made are the ways to make a manager whose cluster has a cache. Both managers keep the same contract.
func made() map[string]func(*testing.T, cache.Cache, logr.Logger) manager.Manager {
	return map[string]func(*testing.T, cache.Cache, logr.Logger) manager.Manager{
		"app.Manager": newManager, "controller-runtime": newReference,
	}
}

func newManager(t *testing.T, c cache.Cache, log logr.Logger) manager.Manager {
	t.Helper()
	one, err := cluster.New(&rest.Config{Transport: refusing{}}, func(o *cluster.Options) {
		o.Logger = log
		o.NewCache = func(*rest.Config, cache.Options) (cache.Cache, error) { return c, nil }
	})
	must(t, err)
	return app.NewManager(one, log, config.Controller{Logger: log})
}

func newReference(t *testing.T, c cache.Cache, log logr.Logger) manager.Manager {
	t.Helper()
	forever := time.Duration(-1)
	m, err := manager.New(&rest.Config{Transport: refusing{}}, manager.Options{
		Logger: log, Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: &forever,
		NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) { return c, nil },
	})
	must(t, err)
	return m
}

// refusing is a transport that sends no request.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }

// withBoth runs a test with each manager, in a bubble in which waits take no time.
func withBoth(t *testing.T, f func(*testing.T, *recorded)) {
	t.Helper()
	for name, newManager := range made() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f(t, newRecorded(t, newManager)) })
		})
	}
}

// with runs a test with the manager of the package only.
func with(t *testing.T, f func(*testing.T, *recorded)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, newRecorded(t, newManager)) })
}

// recorded is a manager whose runnables note what happens to them.
type recorded struct {
	manager.Manager
	t      *testing.T
	cache  *fakeCache
	cancel context.CancelFunc
	result chan error

	mu     sync.Mutex
	events []string
	logged []string
}

func newRecorded(t *testing.T, newManager func(*testing.T, cache.Cache, logr.Logger) manager.Manager) *recorded {
	t.Helper()
	s := &recorded{t: t, result: make(chan error, 1)}
	s.cache = &fakeCache{part: s.part("cache"), synced: make(chan struct{})}
	s.Manager = newManager(t, s.cache, funcr.New(func(_, line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.logged = append(s.logged, line)
	}, funcr.Options{}))
	return s
}

// start starts the manager, and returns when nothing else can happen.
func (s *recorded) start() {
	ctx, cancel := context.WithCancel(s.t.Context())
	s.cancel = cancel
	go func() { s.result <- s.Start(ctx) }()
	synctest.Wait()
}

// startSynced is start with a cache that syncs at once, and ends at once with the manager.
func (s *recorded) startSynced() {
	close(s.cache.synced)
	close(s.cache.release)
	s.start()
}

func (s *recorded) add(r manager.Runnable) {
	s.t.Helper()
	must(s.t, s.Add(r))
}

func (s *recorded) note(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event)
}

// happened returns the events since the last call, sorted, when nothing else can happen.
func (s *recorded) happened() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.events
	s.events = nil
	slices.Sort(events)
	return events
}

func (s *recorded) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.logged)
}

// expect fails the test unless exactly these events have happened since the last call.
func (s *recorded) expect(events ...string) {
	s.t.Helper()
	slices.Sort(events)
	if got := s.happened(); !slices.Equal(got, events) {
		s.t.Fatalf("got the events %q, want %q", got, events)
	}
}

func (s *recorded) expectRunning() {
	s.t.Helper()
	synctest.Wait()
	select {
	case err := <-s.result:
		s.t.Fatalf("Start has returned %v", err)
	default:
	}
}

// expectEnd fails the test unless Start returns an error.
func (s *recorded) expectEnd(want error) {
	s.t.Helper()
	synctest.Wait()
	select {
	case err := <-s.result:
		if !errors.Is(err, want) {
			s.t.Fatalf("Start: got %v, want %v", err, want)
		}
	default:
		s.t.Fatal("Start has not returned")
	}
}

func (s *recorded) isElected() bool {
	synctest.Wait()
	select {
	case <-s.Elected():
		return true
	default:
		return false
	}
}

// part is a runnable that needs leader election. It notes the start, the end of its context and its return, which happens
// with the error that fail receives or, after the end of the context, when release is closed.
type part struct {
	recorded *recorded
	name     string
	release  chan struct{}
	fail     chan error
}

var errFailed = errors.New("failed")

func (s *recorded) part(name string) *part {
	return &part{recorded: s, name: name, release: make(chan struct{}), fail: make(chan error, 1)}
}

func (p *part) Start(ctx context.Context) error { return p.run(ctx, "") }

func (p *part) run(ctx context.Context, suffix string) error {
	p.recorded.note(p.name + suffix + " starts")
	select {
	case err := <-p.fail:
		p.recorded.note(p.name + suffix + " fails")
		return err
	case <-ctx.Done():
	}
	p.recorded.note(p.name + suffix + " is canceled")
	select {
	case err := <-p.fail:
		return err
	case <-p.release:
		return nil
	}
}

// unelected is a runnable that needs no leader election.
type unelected struct{ *part }

func (unelected) NeedLeaderElection() bool { return false }

// controller is a runnable with a Warmup, which returns when warm receives.
type controller struct {
	*part
	warm chan error
}

func (s *recorded) controller(name string) *controller {
	return &controller{part: s.part(name), warm: make(chan error, 1)}
}

func (*controller) NeedLeaderElection() bool { return true }

func (c *controller) Warmup(ctx context.Context) error {
	c.recorded.note(c.name + " warms up")
	select {
	case err := <-c.warm:
		c.recorded.note(c.name + " is warm")
		return err
	case <-ctx.Done():
	}
	c.recorded.note(c.name + "'s warm-up is canceled")
	return <-c.warm
}

// locking is a controller whose calls share a lock, which the first of them has until its context ends.
type locking struct {
	elected bool
	first   string
	free    chan struct{} // closed when the first call has returned
}

func (l *locking) NeedLeaderElection() bool { return l.elected }

func (l *locking) Start(ctx context.Context) error { return l.call(ctx, "Start") }

func (l *locking) Warmup(ctx context.Context) error { return l.call(ctx, "Warmup") }

func (l *locking) call(ctx context.Context, name string) error {
	if name == l.first {
		<-ctx.Done()
		close(l.free)
		return nil
	}
	<-l.free
	return nil
}

type fakeCache struct {
	cache.Cache
	*part
	synced  chan struct{}
	refuses bool
}

func (c *fakeCache) Start(ctx context.Context) error { return c.part.Start(ctx) }

func (c *fakeCache) WaitForCacheSync(ctx context.Context) bool {
	if c.refuses {
		return false
	}
	select {
	case <-c.synced:
		return true
	case <-ctx.Done():
		return false
	}
}

// withCache is a runnable with a cache, such as a cluster.
type withCache struct{ *fakeCache }

func (w withCache) GetCache() cache.Cache { return w.fakeCache }
