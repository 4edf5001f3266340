// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// doomed is the label of the ConfigMaps that the module sweeper deletes.
const doomed = "example.com/doomed"

// sweeper is a module that deletes every doomed ConfigMap of the remotes and the hub.
func sweeper() registry.Module {
	part := fx.Invoke(func(m ctrl.Manager) error {
		sweep := func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			one := &corev1.ConfigMap{}
			if err := m.GetClient().Get(ctx, r.NamespacedName, one); err != nil || one.Labels[doomed] == "" {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			return ctrl.Result{}, client.IgnoreNotFound(m.GetClient().Delete(ctx, one))
		}
		return registry.ControllerManagedBy(m).Named("sweeper").For(&corev1.ConfigMap{}).Complete(reconcile.Func(sweep))
	})
	rules := []rbacv1.PolicyRule{may("configmaps", "list", "watch", "delete")}
	return registry.NewModule("sweeper", registry.ModuleOptions{
		Remote: part, HubRuns: registry.WithRemotes, Hub: part, Rules: rules, HubRules: rules,
	})
}

func doom(at interface{ Create(...client.Object) }, objects int) {
	for i := range objects {
		one := configMap(fmt.Sprintf("doomed-%02d", i))
		one.Labels = map[string]string{doomed: "yes"}
		at.Create(one)
	}
}

// expectLeft waits until so many doomed ConfigMaps are left. It changes them, so that the sweeper looks at them again.
func expectLeft(t *testing.T, hub *hubtest.Hub, at *hubtest.Server, want int) {
	t.Helper()
	var all corev1.ConfigMapList
	hub.Eventually(func() error {
		if err := at.Client().List(t.Context(), &all, client.HasLabels{doomed}); err != nil {
			return err
		}
		for i := range all.Items {
			patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{"at":"%d"}}`, time.Now().UnixNano()))
			if err := client.IgnoreNotFound(at.Client().Patch(t.Context(), &all.Items[i], patch)); err != nil {
				return err
			}
		}
		if len(all.Items) > want {
			return fmt.Errorf("%d ConfigMaps are left, want %d", len(all.Items), want)
		}
		return nil
	})
	testkit.Equal(t, len(all.Items), want, "ConfigMaps are left")
}

// The hub of a test holds deletes with the limits of production, in remotes and in its own API server, and lets through what
// the test allows.
func TestWaitHeld(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(sweeper()), hubtest.HubOptions(func(o *app.Options) {
		o.Registry.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}))
	edge := hub.Remote("edge")
	doom(edge, 25)
	doom(hub, 24)
	held := []deletes.Hold{edge.WaitHeld("sweeper"), hub.WaitHeld("sweeper")}
	for i, where := range []string{"edge", ""} {
		if h := held[i]; h.Cluster != where || h.Deleted != 20 || h.Resource.Resource != "configmaps" {
			t.Errorf("the hold in %q is %+v", where, h)
		}
	}
	expectLeft(t, hub, &edge.Server, 5)
	expectLeft(t, hub, &hub.Server, 4)
	hub.AllowDeletes(deletes.Hold{ID: "sweeper-configmaps-0000", Cluster: "edge"}, 9) // not a hold
	hub.AllowDeletes(held[0], 2)
	hub.AllowDeletes(held[1], 3)
	expectLeft(t, hub, &edge.Server, 3)
	expectLeft(t, hub, &hub.Server, 1)

	for _, at := range []*hubtest.Server{&edge.Server, &hub.Server} {
		testkit.Must(t, at.Client().DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace("default"), client.HasLabels{doomed}))
	}
	hub.Eventually(func() error {
		ahead.Add(int64(11 * time.Minute))
		if left := hub.Registry().HeldDeletes(); len(left) > 0 {
			return fmt.Errorf("the holds do not end: %+v", left)
		}
		return nil
	})
	edge.WaitReady()
}
