// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// withReplicas makes a hub one of several, of which one is active, with Leases that are short enough for a test.
func withReplicas(o app.Options, name string) app.Options {
	o.Alone, o.Active, o.Registry.Replica, o.Shards = false, 1, name, 4
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod, o.LeaveTimeout = 6*time.Second, 4*time.Second, 300*time.Millisecond, 30*time.Second
	return o
}

// holders returns the Pods that have shards, without repeats; one of them is empty if a shard has no holder.
func (h *hub) holders() (pods []string, err error) {
	var records coordinationv1.LeaseList
	err = h.List(h.t.Context(), &records, client.InNamespace(hubv1.DefaultNamespace), client.MatchingLabels{"clusterfx.dev/sharding": "record"})
	for _, one := range records.Items {
		pod := ""
		if one.Spec.HolderIdentity != nil {
			pod = (*one.Spec.HolderIdentity)[:max(0, strings.LastIndex(*one.Spec.HolderIdentity, "-"))]
		}
		pods = append(pods, pod)
	}
	slices.Sort(pods)
	return slices.Compact(pods), err
}

// expectHolders waits until these replicas have all shards, and each of them some.
func (h *hub) expectHolders(names ...string) {
	h.t.Helper()
	eventually(h.t, func() error {
		if pods, err := h.holders(); err != nil || !slices.Equal(pods, names) {
			return fmt.Errorf("the shards are with %q, want %q: %w", pods, names, err)
		}
		return nil
	})
}

// deleteLeases deletes the Leases of a Pod, as an administrator does.
func (h *hub) deleteLeases(pod string) {
	h.t.Helper()
	h.must(h.DeleteAllOf(h.t.Context(), &coordinationv1.Lease{}, client.InNamespace(hubv1.DefaultNamespace), client.MatchingLabels{"clusterfx.dev/pod": pod}))
}

// A standby is ready, runs no apps and no hub parts, and cannot write. It takes over when the active hub is stopped, whose shards
// it gets before its Lease has expired.
func TestRun_Standby(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	first := withReplicas(h.options(), "first")
	first.LeaseDuration, first.RenewDeadline = 2*patience, patience
	active := h.run(first)
	h.register("edge-1", fleettest.Cluster(t, "edge-1").Kubeconfig())
	h.expectReady("edge-1", metav1.ConditionTrue)
	h.expectHolders("first")

	var remotes *registry.Registry
	var own client.Client
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}}
	declares := registry.NewModule("declares", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: fx.Invoke(func() {}), HubRules: rules})
	second := withReplicas(h.options(declares, hubModule(fx.Invoke(func(r *registry.Registry, c client.Client) { remotes, own = r, c }))), "second")
	second.LeaseDuration, second.RenewDeadline, second.HealthAddress = first.LeaseDuration, first.RenewDeadline, fleettest.FreeAddress(t)
	h.run(second)
	eventually(t, func() error { return get(t, second.HealthAddress, "readyz", http.StatusOK) })
	eventually(t, func() error { // A replica is ready as soon as it stands by; its hub parts begin beside.
		for _, one := range remotes.HubParts() {
			if one.State != state.ModuleStandby {
				return fmt.Errorf("a hub part on a standby is %+v", one)
			}
		}
		return nil
	})
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written-by-the-second", Namespace: metav1.NamespaceDefault}}
	testkit.ErrorIs(t, own.Create(t.Context(), written, client.DryRunAll), registry.ErrStandby, "a standby writes")
	beside := h.options()
	testkit.ErrorHas(t, app.Run(t.Context(), beside), "a hub that is alone would write beside them", "a hub that is alone")
	h.must(active.stop())
	h.expectHolders("second")
	h.expectReady("edge-1", metav1.ConditionTrue)
	eventually(t, func() error { // The hub part has begun before the app.
		if info, _ := remotes.Status("edge-1"); info.State != state.StateReady {
			return fmt.Errorf("the remote in the second hub is %+v", info)
		}
		return nil
	})
	h.must(own.Create(t.Context(), written, client.DryRunAll))
}

// A standby beside an active hub writes Leases, the assignment and the installation, and nothing else.
func TestRun_StandbyWritesNothing(t *testing.T) {
	t.Parallel()
	cluster, err := fleettest.New(t, fleet.Options{Audit: true}).Create(t.Context(), "hub")
	must(t, err)
	fleettest.InstallCRDs(t, cluster.Config())
	h := &hub{Client: clientFor(t, cluster), t: t, cluster: cluster}
	h.must(h.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}}))
	h.run(withReplicas(h.options(), "active"))
	h.register("edge-1", fleettest.Cluster(t, "edge-1").Kubeconfig())
	h.expectReady("edge-1", metav1.ConditionTrue)
	standby := withReplicas(h.options(), "standby")
	standby.HealthAddress = fleettest.FreeAddress(t)
	h.run(standby)
	eventually(t, func() error { return get(t, standby.HealthAddress, "readyz", http.StatusOK) })
	h.register("edge-2", fleettest.Cluster(t, "edge-2").Kubeconfig())
	h.expectReady("edge-2", metav1.ConditionTrue)
	expectRenewals(t, h, "standby", 30)
	h.expectHolders("active")
	events, err := cluster.AuditEvents(fleet.AuditEvent.Writes, fleet.ByAgent("clusterfx/standby"))
	h.must(err)
	for _, e := range events {
		if e.Object.Resource != "leases" && e.Object.Name != "clusterfx-assignment" && e.Object.Name != "clusterfx-sharding" {
			t.Errorf("a standby writes %s", e)
		}
	}
}

// expectRenewals waits for that many renewals of the Lease of a Pod.
func expectRenewals(t *testing.T, h *hub, pod string, n int) {
	t.Helper()
	last := ""
	for seen := 0; seen < n; {
		eventually(t, func() error {
			var leases coordinationv1.LeaseList
			if err := h.List(t.Context(), &leases, client.InNamespace(hubv1.DefaultNamespace), client.MatchingLabels{"clusterfx.dev/pod": pod}); err != nil {
				return err
			}
			if len(leases.Items) == 0 || leases.Items[0].ResourceVersion == last {
				return fmt.Errorf("the Lease of %s is not renewed", pod)
			}
			last = leases.Items[0].ResourceVersion
			return nil
		})
		seen++
	}
}

// A hub that loses its Lease ends its apps, and becomes active again in the same process: its manager, its caches and its ports remain.
func TestRun_LostLease(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	ended := make(chan struct{}, 1)
	remote := fx.Invoke(func(l fx.Lifecycle) {
		l.Append(fx.StopHook(func(context.Context) { ended <- struct{}{} }))
	})
	lives := make(chan everything, 10)
	hubPart := fx.Invoke(func(v everything) error {
		lives <- v
		// Each life can add its own metrics, checks, handlers and indexes.
		return errors.Join(
			v.Metrics.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "hub_test_lives", Help: "of a module"})),
			v.Manager.AddReadyzCheck("module", healthz.Ping),
			v.Manager.AddMetricsServerExtraHandler("/extra", http.NotFoundHandler()),
		)
	})
	o := withReplicas(h.options(registry.NewModule("tester", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: hubPart, Remote: remote})), "only")
	o.HealthAddress, o.MetricsAddress = fleettest.FreeAddress(t), fleettest.FreeAddress(t)
	p := h.run(o)
	h.register("edge-1", fleettest.Cluster(t, "edge-1").Kubeconfig())
	h.expectReady("edge-1", metav1.ConditionTrue)
	expectNoFailure := requestAll(t, "http://"+o.HealthAddress+"/healthz", "http://"+o.MetricsAddress+"/metrics", "http://"+o.HealthAddress+"/readyz")
	h.deleteLeases("only")
	testkit.Closed(t, "the app of the remote ends", ended)
	one := <-lives // The hub part may have another life, too, if it takes longer until the hub has shards again.
	eventually(t, func() error {
		if info, _ := one.Registry.Status("edge-1"); info.State != state.StateReady {
			return fmt.Errorf("the remote in the next life is %+v", info)
		}
		return nil
	})
	expectNoFailure()
	if err := p.stop(); err != nil {
		t.Errorf("a hub in its second life that is stopped returns %v", err)
	}
	h.expectHolders("")
}

// requestAll requests the pages repeatedly until its result is called, which fails the test unless every page was
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
