// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/state"
)

// States are metrics computed from snapshots at each scrape, so that the series of a removed remote disappear.
type States struct {
	StatesOptions

	clusters, modules             *prometheus.Desc // how many there are of each kind
	info, state, module, restarts *prometheus.Desc // for each remote
	part, zombies                 *prometheus.Desc // for each hub part
	holds                         *prometheus.Desc // of deletes
	slots                         *prometheus.Desc // of starts
}

// StatesOptions say of what. No function may wait for a remote.
type StatesOptions struct {
	Remotes    func() []state.Status
	HubParts   func() []state.HubPartStatus
	Holds      func() []deletes.Hold
	StartSlots func() map[string]int
	// Aggregate means that no series names a remote.
	Aggregate bool
}

var _ prometheus.Collector = (*States)(nil)

// NewStates returns a collector.
func NewStates(o StatesOptions) *States {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("clusterfx_"+name, help, labels, nil)
	}
	return &States{
		StatesOptions: o,
		clusters:      desc("clusters", "Remotes by their state.", "state"),
		modules:       desc("modules", "Modules of remotes by their state.", "module", "state"),
		info: desc("cluster_info", "1 for each remote, with the id and the version that it told last.",
			ClusterLabel, "id", "version"),
		state:  desc("cluster_state", "1 for the state that a remote is in.", ClusterLabel, "state"),
		module: desc("module_state", "1 for the state that a module of a remote is in.", ClusterLabel, "module", "state"),
		part:   desc("hub_part_state", "1 for the state that the hub part of a module is in.", "module", "state"),
		zombies: desc("hub_part_zombies",
			"Earlier lives of the hub part of a module that were fenced and do not end.", "module"),
		holds: desc("delete_holds",
			"Holds of the deletes of a module that are in force in a remote, without a cluster in the hub, and with the cluster * in all of them; no series for others.",
			ClusterLabel, "module", "resource"),
		slots: desc("start_slots",
			"How many apps may start at the same time, and how many new remotes may be contacted (contacts): 64 by default, and fewer while the hub is late to renew its Lease.",
			"queue"),
		restarts: desc("app_failures_in_a_row", "How often an app has failed since it was last well for ten minutes.", ClusterLabel),
	}
}

// Register replaces the collector of a registry that was shut down.
func (s *States) Register(at prometheus.Registerer) error {
	err := at.Register(s)
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		at.Unregister(registered.ExistingCollector)
		err = at.Register(s)
	}
	return err
}

// states are all: one without remotes is 0.
func states() []state.State {
	return []state.State{state.StatePending, state.StateStarting, state.StateWarm, state.StateReady, state.StateUnreachable, state.StateFailed, state.StatePaused, state.StateStopping}
}

// Describe implements prometheus.Collector.
func (s *States) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.clusters, s.modules, s.info, s.state, s.module, s.restarts, s.part, s.zombies, s.holds, s.slots} {
		to <- d
	}
}

// Collect implements prometheus.Collector. It waits for no remote.
func (s *States) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	clusters, modules := map[state.State]int{}, map[[2]string]int{}
	for _, info := range s.Remotes() {
		clusters[info.State]++
		for _, m := range info.Modules {
			modules[[2]string{m.Name, m.State}]++
			if !s.Aggregate {
				gauge(s.module, 1, string(info.Name), m.Name, m.State)
			}
		}
		if !s.Aggregate {
			gauge(s.info, 1, string(info.Name), info.ID, info.Version)
			gauge(s.state, 1, string(info.Name), string(info.State))
			gauge(s.restarts, info.Restarts, string(info.Name))
		}
	}
	for _, one := range states() {
		gauge(s.clusters, clusters[one], string(one))
	}
	for _, one := range s.HubParts() {
		gauge(s.part, 1, one.Module, one.State)
		gauge(s.zombies, one.Zombies, one.Module)
	}
	for queue, n := range s.StartSlots() {
		gauge(s.slots, n, queue)
	}
	for key, n := range modules {
		gauge(s.modules, n, key[0], key[1])
	}
	for labels, n := range s.countHolds() {
		gauge(s.holds, n, labels[:]...)
	}
}

// countHolds is by the labels. A hold of all clusters has the cluster *.
func (s *States) countHolds() map[[3]string]int {
	all := map[[3]string]int{}
	for _, h := range s.Holds() {
		cluster := h.Cluster
		switch {
		case h.Fleet:
			cluster = "*"
		case s.Aggregate:
			cluster = ""
		}
		all[[3]string{cluster, h.Module, h.Resource.String()}]++
	}
	return all
}
