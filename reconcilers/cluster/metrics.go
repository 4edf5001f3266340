// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// conditions reads the cache at each scrape, on a standby, too; of hubs that share Clusters each reports a part.
type conditions struct {
	clusters  client.Reader // cached
	share     Share
	aggregate bool

	all, one, expires *prometheus.Desc
}

var _ prometheus.Collector = (*conditions)(nil)

func newConditions(clusters client.Reader, share Share, aggregate bool) *conditions {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("clusterfx_"+name, help, labels, nil)
	}
	return &conditions{
		clusters: clusters, share: share, aggregate: aggregate,
		all: desc("conditions", "Clusters by the status and reason of each condition.", "type", "status", "reason"),
		one: desc("cluster_condition", "1 for the status and reason that a condition of a Cluster has.",
			"cluster", "type", "status", "reason"),
		expires: desc("cluster_credentials_expiration_timestamp_seconds",
			"When the credentials of a Cluster end; none for those that do not.", "cluster"),
	}
}

// Describe implements prometheus.Collector.
func (c *conditions) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.all, c.one, c.expires} {
		to <- d
	}
}

const collectTimeout = time.Second // collectTimeout bounds the read of a cache that has not synced yet.

// Collect implements prometheus.Collector.
func (c *conditions) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout) //nolint:forbidigo // The interface passes no context.
	defer cancel()
	var clusters hubv1.ClusterList
	if err := c.clusters.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		return // There are no metrics before the cache has synced.
	}
	type state struct{ kind, status, reason string }
	counts, isExported := map[state]int{}, exportedBy(c.share)
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if !isExported(cluster.UID) {
			continue
		}
		for _, condition := range cluster.Status.Conditions {
			s := state{condition.Type, string(condition.Status), condition.Reason}
			counts[s]++
			if !c.aggregate {
				to <- prometheus.MustNewConstMetric(c.one, prometheus.GaugeValue, 1, cluster.Name, s.kind, s.status, s.reason)
			}
		}
		if end := cluster.Status.Credentials.ExpirationTime; !end.IsZero() && !c.aggregate {
			to <- prometheus.MustNewConstMetric(c.expires, prometheus.GaugeValue, float64(end.Unix()), cluster.Name)
		}
	}
	for s, n := range counts {
		to <- prometheus.MustNewConstMetric(c.all, prometheus.GaugeValue, float64(n), s.kind, s.status, s.reason)
	}
}
