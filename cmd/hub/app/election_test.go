// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"go.uber.org/fx"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// leaseKey is where hubs put their lease by default.
var leaseKey = client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: "clusterfx-hub"}

// fast is an election that takes no longer than a test.
func fast() app.Election {
	return app.Election{
		Enabled: true, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond,
	}
}

// Two hubs stand by for each other. The first one is stopped: its apps end while it still has the
// lease, and the second one takes over at once.
func TestRun_Standby(t *testing.T) {
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
	leader := h.run(first)
	h.register("edge-1", fleettest.Cluster(t, "edge-1").Kubeconfig())
	h.expectReady("edge-1", metav1.ConditionTrue)
	firstHolder, err := h.holder(t.Context())
	h.must(err)

	var remotes *registry.Registry
	second := h.options(hubModule(fx.Populate(&remotes)))
	second.Election, second.HealthAddress = fast(), freeAddress(t)
	h.run(second)
	eventually(t, func() error { return get(t, second.HealthAddress, "readyz", http.StatusOK) })
	if _, known := remotes.Info("edge-1"); known {
		t.Error("the standby runs apps")
	}

	h.must(leader.stop())
	if got := <-heldAtStop; got != firstHolder {
		t.Errorf("when the first hub stopped its app, the lease was held by %q, not by %q", got, firstHolder)
	}
	eventually(t, func() error {
		if info, _ := remotes.Info("edge-1"); info.State != registry.StateReady {
			return fmt.Errorf("the second hub has it as %+v", info)
		}
		return nil
	})
	if holder, err := h.holder(t.Context()); err != nil || holder == firstHolder {
		t.Errorf("the lease is held by %q, %v", holder, err)
	}
}

// A hub that loses its lease ends with an error, so that whoever runs it starts it again.
func TestRun_LostLease(t *testing.T) {
	h := newHub(t)
	o := h.options()
	o.Election = fast()
	p := h.run(o)
	eventually(t, func() error {
		if holder, err := h.holder(t.Context()); holder == "" {
			return errors.Join(errors.New("nobody has the lease"), err)
		}
		return nil
	})
	eventually(t, func() error { // The holder writes too, and may be faster.
		var lease coordinationv1.Lease
		if err := h.Get(t.Context(), leaseKey, &lease); err != nil {
			return err
		}
		other, now := "somebody-else", metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &other, &now
		return h.Update(t.Context(), &lease)
	})
	if err := p.wait(); err == nil || err.Error() != "the hub's manager ended: leader election lost" {
		t.Errorf("got %v", err)
	}
	h.must(h.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: leaseKey.Namespace, Name: leaseKey.Name,
	}}))
}

// holder returns who has the lease, or nobody.
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
