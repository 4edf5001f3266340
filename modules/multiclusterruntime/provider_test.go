// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/multiclusterruntime"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// lives is a runnable of a manager that records engaged clusters. Engage calls do, if it is set.
type lives struct {
	do func(ctx context.Context, name multicluster.ClusterName) error

	mu   sync.Mutex // protects seen
	seen map[multicluster.ClusterName][]life
}

type life struct {
	ctx     context.Context //nolint:containedctx // It is what the test is about.
	cluster cluster.Cluster
}

func (l *lives) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (l *lives) Engage(ctx context.Context, name multicluster.ClusterName, c cluster.Cluster) error {
	l.mu.Lock()
	if l.seen == nil {
		l.seen = map[multicluster.ClusterName][]life{}
	}
	l.seen[name] = append(l.seen[name], life{ctx, c})
	l.mu.Unlock()
	if l.do != nil {
		return l.do(ctx, name)
	}
	return nil
}

func (l *lives) of(name multicluster.ClusterName) []life {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[name]
}

// expect waits until a cluster was engaged this many times, and returns the last engagement.
func (l *lives) expect(t *testing.T, name multicluster.ClusterName, times int) life {
	t.Helper()
	eventually(t, func() error {
		if got := len(l.of(name)); got < times {
			return fmt.Errorf("%s was engaged %d times, want %d", name, got, times)
		}
		return nil
	})
	return l.of(name)[times-1]
}

// expectEnd waits until the context of an Engage has ended.
func expectEnd(t *testing.T, one life) {
	t.Helper()
	select {
	case <-one.ctx.Done():
	case <-time.After(patience):
		t.Fatal("context of the Engage has not ended")
	}
}

// The context of an Engage ends when its remote is removed, is paused or gets another epoch; while no epoch can be
// used, Get fails at once with the errors of the library and of the registry.
func TestProvider_FollowsEpochs(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "one")
	var l lives
	var r record
	h := newHub(t, multiclusterruntime.Options{}, func(h *hub) error { return errors.Join(watching(t, &r)(h), h.Add(&l)) })
	h.expectNone(t, "one", registry.ErrNotFound)
	key := create(t, c)
	h.register(t, "one", c.Kubeconfig())
	r.expect(t, in("one", key), 0)
	first := l.expect(t, "one", 1)
	if got, err := h.GetCluster(t.Context(), "one"); err != nil || got != first.cluster {
		t.Errorf("Get returned %v and error %v, want the cluster of Engage", got, err)
	}

	narrow := configFor(t, c.Kubeconfig())
	narrow.Namespaces = []string{"default"}
	testkit.Must(t, h.remotes.Ensure("one", narrow))
	second := l.expect(t, "one", 2)
	expectEnd(t, first)
	if second.cluster == first.cluster {
		t.Error("two epochs have the same cluster")
	}
	r.expect(t, in("one", create(t, c)), 0)

	paused := narrow
	paused.Paused = true
	testkit.Must(t, h.remotes.Ensure("one", paused))
	expectEnd(t, second)
	h.expectNone(t, "one", registry.ErrNotReady)
	testkit.Must(t, h.remotes.Ensure("one", narrow))
	third := l.expect(t, "one", 3)
	testkit.Must(t, h.remotes.Stop(t.Context(), "one"))
	expectEnd(t, third)
	h.expectNone(t, "one", registry.ErrNotFound)
	testkit.ErrorIs(t, third.cluster.GetClient().Get(t.Context(), key, &corev1.ConfigMap{}), registry.ErrStopped, "client of an ended epoch")
	testkit.Fails(t, third.cluster.Start(t.Context()), "Start of a remote's cluster succeeds outside the registry")
}

// expectNone waits until Get fails for this cluster with this reason.
func (h *hub) expectNone(t *testing.T, name multicluster.ClusterName, why error) {
	t.Helper()
	eventually(t, func() error {
		began := time.Now()
		_, err := h.GetCluster(t.Context(), name)
		if took := time.Since(began); took > time.Second {
			t.Errorf("Get took %s, want at most 1s", took)
		}
		if !errors.Is(err, multicluster.ErrClusterNotFound) || !errors.Is(err, why) {
			return fmt.Errorf("got %w, want %w", err, why)
		}
		return nil
	})
}

// A remote that was unreachable is engaged again, and its objects make requests again.
func TestProvider_ComesBack(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "one")
	proxy, behind := fleettest.ProxyTo(t, c)
	var r record
	var l lives
	h := newHub(t, multiclusterruntime.Options{}, func(h *hub) error { return errors.Join(watching(t, &r)(h), h.Add(&l)) })
	config := configFor(t, behind)
	config.Probe = state.Probe{Period: 200 * time.Millisecond, Timeout: time.Second, FailureThreshold: 1}
	testkit.Must(t, h.remotes.Ensure("one", config))
	key := create(t, c)
	r.expect(t, in("one", key), 0)
	testkit.Must(t, proxy.Set(fault.Refuse()))
	expectEnd(t, l.expect(t, "one", 1))
	h.expectNone(t, "one", registry.ErrNotReady)
	before := r.count(in("one", key))
	late := create(t, c)
	testkit.Must(t, proxy.Set(fault.Pass()))
	l.expect(t, "one", 2)
	r.expect(t, in("one", key), before)
	r.expect(t, in("one", late), 0)
}

// Only selected remotes are engaged. The selection follows the remote's labels.
func TestOptions_Select(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "one")
	var l lives
	edge := func(info registry.Status) bool { return info.Labels["tier"] == "edge" }
	h := newHub(t, multiclusterruntime.Options{Select: edge}, func(h *hub) error { return h.Add(&l) })
	config := configFor(t, c.Kubeconfig())
	label := func(name registry.ClusterName, tier string) {
		config.Labels = map[string]string{"tier": tier}
		testkit.Must(t, h.remotes.Ensure(name, config))
	}
	label("center", "core")
	label("rim", "edge")
	first := l.expect(t, "rim", 1)
	label("rim", "core")
	expectEnd(t, first)
	h.expectNone(t, "rim", registry.ErrNotReady)
	label("rim", "edge")
	l.expect(t, "rim", 2)
	if got := l.of("center"); len(got) > 0 {
		t.Errorf("unselected remote was engaged %d times, want 0", len(got))
	}
}

// A provider serves one manager. A second Start for the same manager, by New and by the manager, has no effect.
func TestProvider_StartedTwice(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "one")
	var l, other lives
	remotes := newRegistry(t, newManager(t))
	t.Cleanup(func() {
		testkit.NoError(t, remotes.Shutdown(context.WithoutCancel(t.Context())), "Shutdown")
	})
	p := multiclusterruntime.NewProvider(remotes, multiclusterruntime.Options{})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			testkit.NoError(t, p.Start(ctx, &l), "Start")
		})
	}
	testkit.Must(t, remotes.Ensure("one", configFor(t, c.Kubeconfig())))
	one := l.expect(t, "one", 1)
	testkit.Fails(t, p.Start(ctx, &other), "Start for a second manager succeeds")
	stop()
	running.Wait()
	expectEnd(t, one)
	testkit.Equal(t, len(l.of("one")), 1, "engagements of the remote")
}
