// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/registry/internal/telemetry"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A scrape reports the current states. The collector of a new registry replaces the previous collector, and an
// aggregating collector has no series of a remote.
func TestStates(t *testing.T) {
	t.Parallel()
	var remotes []state.Status
	list := func() []state.Status { return remotes }
	parts := func() []state.HubPartStatus {
		return []state.HubPartStatus{{Module: "dns", State: "Degraded", Zombies: 2}}
	}
	configMaps, secrets := schema.GroupResource{Resource: "configmaps"}, schema.GroupResource{Resource: "secrets"}
	held := []deletes.Hold{
		{Cluster: "edge", Module: "dns", Resource: configMaps},
		{Cluster: "edge", Fleet: true, Module: "dns", Resource: secrets},
		{Cluster: "core", Module: "dns", Resource: configMaps},
	}
	o := telemetry.StatesOptions{Remotes: list, HubParts: parts, Holds: func() []deletes.Hold { return held }, StartSlots: func() map[string]int { return map[string]int{"apps": 16} }}
	at := prometheus.NewPedanticRegistry()
	for range 2 {
		must(t, telemetry.NewStates(o).Register(at))
	}
	const names = "clusterfx_cluster_state"
	if n, err := testutil.GatherAndCount(at, names); n != 0 || err != nil {
		t.Errorf("got %d series without remotes, want 0: %v", n, err)
	}
	remotes = []state.Status{{Name: "edge", State: state.StateReady, Modules: []state.ModuleStatus{{Name: "dns", State: state.ModuleRunning}}}}
	want := `# HELP clusterfx_cluster_state 1 for the state that a remote is in.
# TYPE clusterfx_cluster_state gauge
clusterfx_cluster_state{cluster="edge",state="Ready"} 1
# HELP clusterfx_hub_part_zombies Earlier lives of the hub part of a module that were fenced and do not end.
# TYPE clusterfx_hub_part_zombies gauge
clusterfx_hub_part_zombies{module="dns"} 2
# HELP clusterfx_modules Modules of remotes by their state.
# TYPE clusterfx_modules gauge
clusterfx_modules{module="dns",state="Running"} 1
# HELP clusterfx_start_slots How many apps may start at the same time, and how many new remotes may be contacted (contacts): 64 by default, and fewer while the hub is late to renew its Lease.
# TYPE clusterfx_start_slots gauge
clusterfx_start_slots{queue="apps"} 16
`
	if err := testutil.GatherAndCompare(at, strings.NewReader(want), names, "clusterfx_hub_part_zombies", "clusterfx_modules", "clusterfx_start_slots"); err != nil {
		t.Error(err)
	}
	want = `# HELP clusterfx_delete_holds Holds of the deletes of a module that are in force in a remote, without a cluster in the hub, and with the cluster * in all of them; no series for others.
# TYPE clusterfx_delete_holds gauge
clusterfx_delete_holds{cluster="*",module="dns",resource="secrets"} 1
clusterfx_delete_holds{cluster="core",module="dns",resource="configmaps"} 1
clusterfx_delete_holds{cluster="edge",module="dns",resource="configmaps"} 1
`
	if err := testutil.GatherAndCompare(at, strings.NewReader(want), "clusterfx_delete_holds"); err != nil {
		t.Error(err)
	}
	o.Aggregate = true
	want = `# HELP clusterfx_delete_holds Holds of the deletes of a module that are in force in a remote, without a cluster in the hub, and with the cluster * in all of them; no series for others.
# TYPE clusterfx_delete_holds gauge
clusterfx_delete_holds{cluster="",module="dns",resource="configmaps"} 2
clusterfx_delete_holds{cluster="*",module="dns",resource="secrets"} 1
`
	if err := testutil.CollectAndCompare(telemetry.NewStates(o), strings.NewReader(want), "clusterfx_delete_holds"); err != nil {
		t.Error(err)
	}
	held = nil
	if n, err := testutil.GatherAndCount(at, "clusterfx_delete_holds"); n != 0 || err != nil {
		t.Errorf("got %d series without holds, want 0: %v", n, err)
	}
	if n := testutil.CollectAndCount(telemetry.NewStates(o), names, "clusterfx_cluster_info", "clusterfx_module_state", "clusterfx_app_failures_in_a_row"); n != 0 {
		t.Errorf("got %d series of remotes in an aggregate, want 0", n)
	}
}
