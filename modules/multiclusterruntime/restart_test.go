// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app" //nolint:depguard // options of the hub
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The documented controller works in the first term of a hub, in the term after a lost lease, and after a restart, all
// in one process, where a controller name is accepted only once.
func TestExample_Terms(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "./modules/multiclusterruntime TestExample_HubPartFails")
	var terms atomic.Int64
	counting := registry.NewModule("terms", registry.ModuleOptions{Hub: fx.Invoke(func() { terms.Add(1) })})
	h := hubtest.New(t, hubtest.Remotes("a"), hubtest.Modules(append(newExample(), counting)...),
		hubtest.HubOptions(func(o *app.Options) {
			o.Election = app.Election{
				Enabled: true, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond,
			}
		}))
	expectWritten(t, h, "first-term")

	steal(t, h)
	eventually(t, func() error {
		if n := terms.Load(); n != 2 {
			return fmt.Errorf("hub had %d terms, want 2", n)
		}
		return nil
	})
	expectWritten(t, h, "second-term")

	h.Restart()
	expectWritten(t, h, "restarted")
	if n := terms.Load(); n != 3 {
		t.Errorf("hub had %d terms, want 3", n)
	}
}

// The documented controller works after its hub part has failed and was built again.
func TestExample_HubPartFails(t *testing.T) {
	t.Parallel()
	var lives atomic.Int64
	failing := registry.NewModule("failing", registry.ModuleOptions{Rules: rules(), Hub: fx.Options(
		fx.Invoke(setUp),
		fx.Invoke(func(l fx.Lifecycle) {
			l.Append(fx.StartHook(func() error {
				if lives.Add(1) == 1 {
					return errors.New("no database")
				}
				return nil
			}))
		}),
	)})
	h := hubtest.New(t, hubtest.Remotes("a"), hubtest.Modules(newExample()[0], failing))
	h.WaitHubPart("failing", state.ModuleRunning, "")
	expectWritten(t, h, "after-a-failure")
}

// expectWritten expects that the example's controller writes into a new ConfigMap.
func expectWritten(t *testing.T, h *hubtest.Hub, name string) {
	t.Helper()
	a := h.Remote("a")
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}}
	one.Data = map[string]string{clusterKey: ""}
	a.Create(one)
	a.WaitFor(one, func() error {
		if got := one.Data[clusterKey]; got != "a" {
			return fmt.Errorf("name in %s: got %q, want a", name, got)
		}
		return nil
	})
}

// steal writes another holder into the lease of the hub, which does not renew it.
func steal(t *testing.T, h *hubtest.Hub) {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: "clusterfx-hub"}}
	other := "another-hub"
	h.WaitFor(lease, func() error {
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return errors.New("the hub has no lease")
		}
		return nil
	})
	eventually(t, func() error { // The hub also writes the lease.
		if err := h.Client().Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
			return err
		}
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &other, &now
		return h.Client().Update(t.Context(), lease)
	})
}
