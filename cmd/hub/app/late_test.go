// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/e2e/fault"
)

// A replica that is late to renew its Lease starts fewer apps at the same time, until it renews the Lease in time again.
func TestRun_Late(t *testing.T) {
	t.Parallel()
	h, all := newShardedHub(t, newHub(t).cluster), prometheus.NewRegistry()
	h.replica.Registry.Metrics = all
	h.replica.LeaseDuration, h.replica.RenewDeadline, h.replica.ForgetAfter = 45*time.Second, 40*time.Second, time.Hour
	_, proxy := h.start("late")
	expectRenewals(t, &h.hub, "late", 3)
	expectFewerSlots(t, all, proxy)
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
