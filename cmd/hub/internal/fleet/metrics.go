// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

var (
	_ prometheus.Collector = (*Fleet)(nil)
	_ cluster.Exporter     = (*Fleet)(nil)
)

const labelApps = "apps" // labelApps: how the apps of a shard were when this hub took it.

type moves struct {
	takes                *prometheus.CounterVec
	handovers, marks     prometheus.Counter
	all, epoch, replicas *prometheus.Desc
	drained, unmet       *prometheus.Desc
}

func newMoves() moves {
	return moves{
		takes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clusterfx_shard_takes_total",
			Help: "Shards that this replica has taken: with warm apps in a hand-over, with cold ones from a replica that has ended.",
		}, []string{labelApps}),
		handovers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clusterfx_shard_handovers_total",
			Help: "Shards that this replica ran and has ended to run, to hand them over or because it lost its Lease.",
		}),
		marks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clusterfx_marks_total", Help: "Clusters that this replica has marked, because their runner has ended.",
		}),
		all: prometheus.NewDesc("clusterfx_shards", "Shards of the installation that have Clusters: all but shard 0, which is what runs once.", nil, nil),
		epoch: prometheus.NewDesc("clusterfx_shard_epoch",
			"Epoch of each shard for which this replica may write; no series for others.", []string{"shard"}, nil),
		replicas: prometheus.NewDesc("clusterfx_replicas_live",
			"Replicas that are live and not leaving, as this replica sees them. Absent while this replica has no valid Lease.", nil, nil),
		drained: prometheus.NewDesc("clusterfx_replicas_drained",
			"Live replicas that an administrator has drained. If it is clusterfx_replicas_live, they get shards nevertheless.", nil, nil),
		unmet: prometheus.NewDesc("clusterfx_pins_unmet",
			"Clusters in the shards of this replica whose spec.runner asks for labels that this replica does not have.", nil, nil),
	}
}

func (m *moves) note(before, after cluster.Role) {
	switch {
	case before == after:
	case after == cluster.RoleRunner && before == cluster.RoleWarm:
		m.takes.WithLabelValues("warm").Inc()
	case after == cluster.RoleRunner:
		m.takes.WithLabelValues("cold").Inc()
	case before == cluster.RoleRunner && after == cluster.RoleNone:
		m.handovers.Inc()
	}
}

// Describe implements prometheus.Collector.
func (f *Fleet) Describe(to chan<- *prometheus.Desc) {
	f.moves.takes.Describe(to)
	f.moves.handovers.Describe(to)
	f.moves.marks.Describe(to)
	for _, d := range []*prometheus.Desc{f.moves.all, f.moves.epoch, f.moves.replicas, f.moves.drained, f.moves.unmet} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (f *Fleet) Collect(to chan<- prometheus.Metric) {
	f.moves.takes.Collect(to)
	f.moves.handovers.Collect(to)
	f.moves.marks.Collect(to)
	to <- prometheus.MustNewConstMetric(f.moves.all, prometheus.GaugeValue, float64(f.count))
	o, ok := f.Observe()
	if !ok {
		return
	}
	to <- prometheus.MustNewConstMetric(f.moves.replicas, prometheus.GaugeValue, float64(len(o.Live)))
	to <- prometheus.MustNewConstMetric(f.moves.drained, prometheus.GaugeValue, float64(o.Drained))
	to <- prometheus.MustNewConstMetric(f.moves.unmet, prometheus.GaugeValue, float64(f.unmetPins(o.Epochs)))
	for shard, epoch := range o.Epochs {
		if epoch != 0 {
			to <- prometheus.MustNewConstMetric(f.moves.epoch, prometheus.GaugeValue, float64(epoch), strconv.Itoa(shard))
		}
	}
}

// Exported reports whether this hub exports a Cluster's metrics: of shards that it holds, and as the assigner of those without a live
// holder. Without a valid Lease it exports none: others may have its Clusters, and its cache may be old.
func (f *Fleet) Exported() func(uid types.UID) bool {
	o, ok := f.Observe()
	if !ok {
		return func(types.UID) bool { return false }
	}
	mine := exportedShards(o)
	return func(uid types.UID) bool { return mine[shards.Of(uid, f.count)] }
}

func exportedShards(o replica.Observation) []bool {
	mine := make([]bool, len(o.Holders))
	for shard, holder := range o.Holders {
		if holder == "" {
			mine[shard] = o.Assigns
			continue
		}
		mine[shard] = holder == o.Me
	}
	return mine
}
