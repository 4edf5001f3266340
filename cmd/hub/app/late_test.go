// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fault"
)

// A leader that is late to renew its Lease starts fewer apps at the same time, until it renews the Lease in time again.
func TestRun_LateLeader(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	proxy, err := fault.New(h.cluster.Config().Host)
	h.must(err)
	t.Cleanup(func() {
		h.stop()
		proxy.Close()
	})
	text, err := proxy.Kubeconfig(h.cluster.Kubeconfig())
	h.must(err)
	all, o := prometheus.NewRegistry(), h.options()
	o.Config, err = clientcmd.RESTConfigFromKubeConfig(text)
	h.must(err)
	o.Registry.Metrics = all
	o.Election = app.Election{Enabled: true, LeaseDuration: 3 * patience, RenewDeadline: 2 * patience, RetryPeriod: 200 * time.Millisecond}
	h.run(o)
	h.awaitRenewals(leaseKey)
	expectFewerSlots(t, all, proxy)
}

// The same for a replica that shares the Clusters.
func TestRun_LateReplica(t *testing.T) {
	t.Parallel()
	h, all := newShardedHub(t, newHub(t).cluster), prometheus.NewRegistry()
	h.replica.Registry.Metrics = all
	// A Lease that is released is claimed at once, any other one after the duration.
	h.must(h.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: hubv1.DefaultNamespace, Name: "late", Labels: map[string]string{"clusterfx.dev/sharding": "replica"},
	}}))
	h.replica.Sharing.LeaseDuration, h.replica.Sharing.RenewDeadline = 45*time.Second, 40*time.Second
	h.replica = app.WithForgetAfter(h.replica, time.Hour)
	_, proxy := h.start("late")
	h.awaitRenewals(client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: "late"})
	expectFewerSlots(t, all, proxy)
}

// awaitRenewals waits until a Lease was renewed twice, so that its owner knows that it has the Lease.
func (h *hub) awaitRenewals(key client.ObjectKey) {
	h.t.Helper()
	var last time.Time
	for seen := 0; seen < 3; seen++ {
		eventually(h.t, func() error {
			var lease coordinationv1.Lease
			if err := h.Get(h.t.Context(), key, &lease); err != nil {
				return err
			}
			if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Equal(last) {
				return fmt.Errorf("the Lease %s is not renewed", key)
			}
			last = lease.Spec.RenewTime.Time
			return nil
		})
	}
}

// expectFewerSlots cuts a hub off, and connects it again.
func expectFewerSlots(t *testing.T, all prometheus.Gatherer, proxy *fault.Proxy) {
	t.Helper()
	expectSlots(t, all, 64, 64)
	must(t, proxy.Set(fault.Blackhole()))
	expectSlots(t, all, 1, 16)
	must(t, proxy.Set(fault.Pass()))
	expectSlots(t, all, 64, 64)
}

// expectSlots waits until the metric of the slots of starts is within limits.
func expectSlots(t *testing.T, all prometheus.Gatherer, least, most float64) {
	t.Helper()
	eventually(t, func() error {
		families, err := all.Gather()
		if err != nil {
			return err
		}
		for _, family := range families {
			if family.GetName() != "clusterfx_start_slots" {
				continue
			}
			if len(family.Metric) != 2 {
				return fmt.Errorf("%d queues have slots, want 2", len(family.Metric))
			}
			for _, queue := range family.Metric {
				if slots := queue.Gauge.GetValue(); slots < least || slots > most {
					return fmt.Errorf("%s: %v slots, want %v to %v", queue.Label[0].GetValue(), slots, least, most)
				}
			}
			return nil
		}
		return errors.New("no metric says how many apps may start at the same time")
	})
}
