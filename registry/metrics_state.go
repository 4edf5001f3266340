// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// overview collects the metrics that follow from the snapshots of the remotes at each scrape. So the series of a
// removed remote disappear by themselves.
type overview struct {
	registry  *Registry
	aggregate bool

	clusters, modules             *prometheus.Desc // how many there are of each kind
	info, state, module, restarts *prometheus.Desc // for each remote
	part, zombies                 *prometheus.Desc // for each hub part
}

var _ prometheus.Collector = (*overview)(nil)

func newOverview(r *Registry, aggregate bool) *overview {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("clusterfx_"+name, help, labels, nil)
	}
	return &overview{
		registry: r, aggregate: aggregate,
		clusters: desc("clusters", "Remotes by their state.", "state"),
		modules:  desc("modules", "Modules of remotes by their state.", "module", "state"),
		info: desc("cluster_info", "1 for each remote, with the id and the version that it told last.",
			telemetry.ClusterLabel, "id", "version"),
		state:  desc("cluster_state", "1 for the state that a remote is in.", telemetry.ClusterLabel, "state"),
		module: desc("module_state", "1 for the state that a module of a remote is in.", telemetry.ClusterLabel, "module", "state"),
		part:   desc("hub_part_state", "1 for the state that the hub part of a module is in.", "module", "state"),
		zombies: desc("hub_part_zombies",
			"Earlier lives of the hub part of a module that were fenced and do not end.", "module"),
		restarts: desc("app_failures_in_a_row", "How often an app has failed since it was last well for ten minutes.", telemetry.ClusterLabel),
	}
}

// register registers the overview. It replaces the overview of a registry that was shut down.
func (o *overview) register(at prometheus.Registerer) error {
	err := at.Register(o)
	var registered prometheus.AlreadyRegisteredError
	if errors.As(err, &registered) {
		at.Unregister(registered.ExistingCollector)
		err = at.Register(o)
	}
	return err
}

// states are all states of a remote; a state without remotes is 0.
func states() []state.State {
	return []state.State{state.StatePending, state.StateStarting, state.StateReady, state.StateUnreachable, state.StateFailed, state.StatePaused, state.StateStopping}
}

// Describe implements prometheus.Collector.
func (o *overview) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{o.clusters, o.modules, o.info, o.state, o.module, o.restarts, o.part, o.zombies} {
		to <- d
	}
}

// Collect implements prometheus.Collector. It waits for no remote.
func (o *overview) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	clusters, modules := map[state.State]int{}, map[[2]string]int{}
	for _, info := range o.registry.List() {
		clusters[info.State]++
		for _, m := range info.Modules {
			modules[[2]string{m.Name, m.State}]++
			if !o.aggregate {
				gauge(o.module, 1, string(info.Name), m.Name, m.State)
			}
		}
		if !o.aggregate {
			gauge(o.info, 1, string(info.Name), info.ID, info.Version)
			gauge(o.state, 1, string(info.Name), string(info.State))
			gauge(o.restarts, info.Restarts, string(info.Name))
		}
	}
	for _, state := range states() {
		gauge(o.clusters, clusters[state], string(state))
	}
	for _, one := range o.registry.HubParts() {
		gauge(o.part, 1, one.Module, one.State)
		gauge(o.zombies, one.Zombies, one.Module)
	}
	for key, n := range modules {
		gauge(o.modules, n, key[0], key[1])
	}
}
