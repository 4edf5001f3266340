// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// leaseKey is the default name of the lease of hubs.
var leaseKey = client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: "clusterfx-hub"}

// fast returns an election whose periods are short enough for a test.
func fast() app.Election {
	return app.Election{
		Enabled: true, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond,
	}
}

// A standby is ready, runs no apps and cannot write. When the leader is stopped, its apps end while it still has the
// lease, and the standby takes over because the leader releases the lease: it does not expire during the test.
func TestRun_Standby(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	heldAtStop := make(chan string, 1)
	watcher := registry.NewModule("watcher", registry.ModuleOptions{Remote: fx.Invoke(
		func(l fx.Lifecycle) {
			l.Append(fx.StopHook(func(ctx context.Context) error {
				holder, err := h.holder(ctx)
				heldAtStop <- holder
				return err
			}))
		})})
	first := h.options(watcher)
	first.Election = fast()
	first.Election.LeaseDuration = 2 * patience
	leader := h.run(first)
	h.register("edge-1", fleettest.Cluster(t, "edge-1").Kubeconfig())
	h.expectReady("edge-1", metav1.ConditionTrue)
	firstHolder, err := h.holder(t.Context())
	h.must(err)

	var remotes *registry.Registry
	var own client.Client
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}}
	declares := registry.NewModule("declares", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: fx.Invoke(func() {}), HubRules: rules})
	second := h.options(hubModule(fx.Populate(&remotes, &own)), declares)
	second.Election, second.HealthAddress = first.Election, fleettest.FreeAddress(t)
	h.run(second)
	eventually(t, func() error { return get(t, second.HealthAddress, "readyz", http.StatusOK) })
	if _, known := remotes.Status("edge-1"); known {
		t.Error("the standby runs apps")
	}
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written-by-a-standby", Namespace: metav1.NamespaceDefault}}
	testkit.ErrorHas(t, own.Create(t.Context(), written), "this hub is not the leader", "a standby can write")
	eventually(t, func() error { // A standby may review its permissions.
		for _, one := range remotes.HubParts() {
			if one.State != state.ModuleRunning {
				return fmt.Errorf("a hub part on a standby is %+v", one)
			}
		}
		return nil
	})

	h.must(leader.stop())
	if got := <-heldAtStop; got != firstHolder {
		t.Errorf("when the first hub stops its app, the lease is held by %q, want %q", got, firstHolder)
	}
	eventually(t, func() error {
		if info, _ := remotes.Status("edge-1"); info.State != state.StateReady {
			return fmt.Errorf("the remote in the second hub is %+v", info)
		}
		return nil
	})
	if holder, err := h.holder(t.Context()); err != nil || holder == firstHolder {
		t.Errorf("the lease is held by %q, %v", holder, err)
	}
}

// endsAfter returns the remote part of a module that reports its end, and ends after a test has tried the clients of
// its term, which are closed later.
func endsAfter(ended chan<- struct{}, tried <-chan struct{}) fx.Option {
	return fx.Invoke(func(l fx.Lifecycle) {
		l.Append(fx.StopHook(func(ctx context.Context) {
			ended <- struct{}{}
			select {
			case <-tried:
			case <-ctx.Done():
			}
		}))
	})
}

// A hub that loses its lease ends its apps and becomes a standby in the same process. Its ports respond all the time,
// and its hub parts are built again, with the same dependencies as in a new hub.
func TestRun_LostLease(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	ended, tried := make(chan struct{}, 1), make(chan struct{})
	remote := endsAfter(ended, tried)
	terms := make(chan everything, 2)
	hubPart := fx.Invoke(func(v everything) error {
		terms <- v
		// Each term can add its own metrics, checks, handlers and indexes.
		return errors.Join(
			v.Metrics.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "hub_test_terms", Help: "of a module"})),
			v.Manager.AddReadyzCheck("module", healthz.Ping),
			v.Manager.AddMetricsServerExtraHandler("/extra", http.NotFoundHandler()),
			v.Manager.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "name",
				func(o client.Object) []string { return []string{o.GetName()} }),
		)
	})
	o := h.options(registry.NewModule("tester", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: hubPart, Remote: remote}))
	o.Election, o.HealthAddress, o.MetricsAddress = fast(), fleettest.FreeAddress(t), fleettest.FreeAddress(t)
	o.Registry.Metrics = ctrlmetrics.Registry
	p := h.run(o)
	h.register("edge-1", fleettest.Cluster(t, "edge-1").Kubeconfig())
	h.expectReady("edge-1", metav1.ConditionTrue)
	own, err := h.holder(t.Context())
	h.must(err)

	expectNoFailure := requestAll(t, "http://"+o.HealthAddress+"/healthz", "http://"+o.MetricsAddress+"/metrics")
	h.steal("somebody-else")
	testkit.Closed(t, "the app of the remote ends", ended)
	old := <-terms
	name := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written-too-late", Namespace: metav1.NamespaceDefault}}
	testkit.ErrorHas(t, old.Client.Create(t.Context(), name), "this hub is not the leader", "a client of the old term can write")
	close(tried)
	next := <-terms
	eventually(t, func() error { return get(t, o.HealthAddress, "readyz", http.StatusOK) })
	if holder, err := h.holder(t.Context()); err != nil || holder != "somebody-else" {
		t.Errorf("the lease is held by %q while the hub is ready to take over, %v", holder, err)
	}
	eventually(t, func() error {
		if info, _ := next.Registry.Status("edge-1"); info.State != state.StateReady {
			return fmt.Errorf("the remote in the next term is %+v", info)
		}
		return nil
	})
	if holder, err := h.holder(t.Context()); err != nil || holder != own {
		t.Errorf("the lease is held by %q, want %q, %v", holder, own, err)
	}
	expectNoFailure()
	if err := p.stop(); err != nil {
		t.Errorf("a hub in its second term that is stopped returns %v", err)
	}
	if holder, err := h.holder(t.Context()); err != nil || holder != "" {
		t.Errorf("the lease is not released: it is held by %q, %v", holder, err)
	}
}

// requestAll requests the pages again and again until its result is called, which fails the test unless every page was
// returned each time.
func requestAll(t *testing.T, pages ...string) (expectNoFailure func()) {
	t.Helper()
	stop, done, requested := make(chan struct{}), make(chan error, 1), 0
	go func() {
		pause := time.NewTicker(10 * time.Millisecond)
		defer pause.Stop()
		for {
			for _, url := range pages {
				if status, body, err := fetch(t, url); err != nil || status != http.StatusOK {
					done <- errors.Join(fmt.Errorf("%s returns %d: %s", url, status, body), err)
					return
				}
				requested++
			}
			select {
			case <-stop:
				done <- nil
				return
			case <-pause.C:
			}
		}
	}()
	return func() {
		t.Helper()
		close(stop)
		if err := <-done; err != nil {
			t.Errorf("request %d of the ports fails: %v", requested+1, err)
		}
	}
}

// A hub that loses its lease and cannot stop a runnable does not start another term, and returns an error.
func TestRun_LostLease_SomethingLeft(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	o := h.options(hubModule(fx.Invoke(func(m ctrl.Manager) error {
		return m.Add(manager.RunnableFunc(func(context.Context) error {
			<-release
			return nil
		}))
	})))
	o.Election = fast()
	o.Registry.Limits.StopTimeout = 100 * time.Millisecond
	p := h.run(o)
	eventually(t, func() error {
		if holder, err := h.holder(t.Context()); holder == "" {
			return errors.Join(errors.New("the lease has no holder"), err)
		}
		return nil
	})
	h.steal("somebody-else")
	err := p.wait()
	if err == nil || !strings.Contains(err.Error(), "within grace period") ||
		!strings.HasPrefix(err.Error(), "the hub lost its lease, and cannot start over in this process: ") {
		t.Errorf("got %v", err)
	}
	if holder, err := h.holder(t.Context()); err != nil || holder != "somebody-else" {
		t.Errorf("the lease is held by %q, %v", holder, err)
	}
}

func (h *hub) steal(holder string) {
	h.t.Helper()
	eventually(h.t, func() error { // The holder also writes, and may be faster.
		var lease coordinationv1.Lease
		if err := h.Get(h.t.Context(), leaseKey, &lease); err != nil {
			return err
		}
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &now
		return h.Update(h.t.Context(), &lease)
	})
}

// holder returns the holder of the lease, or an empty string.
func (h *hub) holder(ctx context.Context) (string, error) {
	var lease coordinationv1.Lease
	if err := h.Get(ctx, leaseKey, &lease); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return "", nil
	}
	return *lease.Spec.HolderIdentity, nil
}
