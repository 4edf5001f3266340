// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// ruleMetrics are of all rules of the hub, exported by the replica that sums them up.
type ruleMetrics struct {
	ready, held, clusters, troubled *prometheus.GaugeVec
}

func newRuleMetrics() *ruleMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "clusterfx_sync_rule_" + name, Help: help}, []string{"rule"})
	}
	return &ruleMetrics{
		ready:    gauge("ready", "1 if the condition Ready of a SyncRule is True, otherwise 0."),
		held:     gauge("held", "1 if the condition Held of a SyncRule is True, otherwise 0."),
		clusters: gauge("clusters", "Clusters that a SyncRule selects."),
		troubled: gauge("problem_clusters", "Clusters that have a problem with a SyncRule."),
	}
}

func (m *ruleMetrics) all() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{m.ready, m.held, m.clusters, m.troubled}
}

func (m *ruleMetrics) set(s *standing) {
	is := func(condition string) float64 {
		if meta.IsStatusConditionTrue(s.rule.Status.Conditions, condition) {
			return 1
		}
		return 0
	}
	m.ready.WithLabelValues(s.rule.Name).Set(is(hubv1.ConditionReady))
	m.held.WithLabelValues(s.rule.Name).Set(is(hubv1.ConditionHeld))
	m.clusters.WithLabelValues(s.rule.Name).Set(float64(len(s.selected)))
	m.troubled.WithLabelValues(s.rule.Name).Set(float64(s.troubled))
}

func (m *ruleMetrics) forget(rule string) {
	for _, one := range m.all() {
		one.DeleteLabelValues(rule)
	}
}
