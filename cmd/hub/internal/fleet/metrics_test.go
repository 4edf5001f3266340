// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

// Each Cluster is exported by one replica: the holder of its shard, or the assigner.
func TestExportedShards(t *testing.T) {
	t.Parallel()
	holders := []string{"a", "b", "", "c", "", "", ""}
	exporters := make([]int, len(holders))
	for _, me := range []string{"a", "b", "c"} {
		for shard, is := range exportedShards(replica.Observation{Me: me, Assigns: me == "b", Holders: holders}) {
			if is {
				exporters[shard]++
			}
			if holder := holders[shard]; holder != "" && is != (holder == me) {
				t.Errorf("%s exports shard %d of %q: %t", me, shard, holder, is)
			}
		}
	}
	if slices.ContainsFunc(exporters, func(n int) bool { return n != 1 }) {
		t.Errorf("got %v exporters, want one for each shard", exporters)
	}
}

// A replica without a Lease exports no Cluster and no shard, and counts its moves.
func TestFleet_Metrics(t *testing.T) {
	t.Parallel()
	f, err := New(Options{Options: replica.Options{Config: &rest.Config{}, Namespace: "hub", Pod: "a", Count: 16}})
	must(t, err)
	if f.Exported()("uid") {
		t.Error("it exports a Cluster without a Lease")
	}
	for _, move := range [][2]cluster.Role{
		{cluster.RoleNone, cluster.RoleWarm},
		{cluster.RoleWarm, cluster.RoleRunner},
		{cluster.RoleRunner, cluster.RoleRunner},
		{cluster.RoleRunner, cluster.RoleNone},
		{cluster.RoleNone, cluster.RoleRunner},
		{cluster.RoleWarm, cluster.RoleNone},
		{cluster.RoleNone, cluster.RoleRunner},
	} {
		f.moves.note(move[0], move[1])
	}
	const want = `
# HELP clusterfx_marks_total Clusters that this replica has marked, because their runner has ended.
# TYPE clusterfx_marks_total counter
clusterfx_marks_total 0
# HELP clusterfx_shard_handovers_total Shards that this replica ran and has ended to run, to hand them over or because it lost its Lease.
# TYPE clusterfx_shard_handovers_total counter
clusterfx_shard_handovers_total 1
# HELP clusterfx_shard_takes_total Shards that this replica has taken: with warm apps in a hand-over, with cold ones from a replica that has ended.
# TYPE clusterfx_shard_takes_total counter
clusterfx_shard_takes_total{apps="cold"} 2
clusterfx_shard_takes_total{apps="warm"} 1
# HELP clusterfx_shards Shards of the installation that have Clusters: all but shard 0, which is what runs once.
# TYPE clusterfx_shards gauge
clusterfx_shards 16
`
	if err := testutil.CollectAndCompare(f, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
