// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

// Each condition of each Cluster is a series, and so is the expiration of its credentials; the series of conditions are
// removed with the Cluster. Without names in the metrics, Clusters in the same state are counted.
func TestMetrics(t *testing.T) {
	t.Parallel()
	for name, aggregate := range map[string]bool{"each": false, "aggregated": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, func(o *hubOptions) {
				o.settings = cluster.Settings{Policy: o.settings.Policy, AggregateMetrics: aggregate}
			})
			for _, one := range []string{h.name("a"), h.name("b")} {
				h.putKubeconfig(one, fleettest.Cluster(t, "one").Kubeconfig())
				h.newCluster(one, nil)
				h.expectReady(one)
			}
			series := map[string]int{"clusterfx_conditions": 5, "clusterfx_cluster_condition": 10, "clusterfx_cluster_credentials_expiration_timestamp_seconds": 2}
			if aggregate {
				series = map[string]int{"clusterfx_conditions": 5, "clusterfx_cluster_condition": 0, "clusterfx_cluster_credentials_expiration_timestamp_seconds": 0}
			}
			h.expectSeries(series)
			for _, one := range []string{h.name("a"), h.name("b")} {
				h.must(h.Delete(t.Context(), h.get(one)))
				h.expectGone(one)
			}
			h.expectSeries(map[string]int{"clusterfx_conditions": 0, "clusterfx_cluster_condition": 0})
		})
	}
}

// expectSeries waits until each metric has this number of series.
func (h *hub) expectSeries(want map[string]int) {
	h.t.Helper()
	h.eventually(func() error {
		for name, n := range want {
			if got, err := testutil.GatherAndCount(h.metrics, name); err != nil || got != n {
				return fmt.Errorf("got %d series of %s, want %d (%w)", got, name, n, err)
			}
		}
		return nil
	})
}
