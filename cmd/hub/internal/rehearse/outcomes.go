// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/registry"
)

// part is a module in one app.
type part struct{ cluster, module string }

// outcomes finds panics of modules, and errors of the second round of reconciles, in the metrics of the apps. What failed and then
// worked says nothing about a version.
func (r *rehearsal) outcomes() {
	panics, failed := r.counted("clusterfx_module_panics_total", ""), r.failed()
	for _, a := range r.apps() {
		for of, n := range panics {
			if of.cluster == a.name && n > 0 {
				a.find(Finding{Module: of.module, Class: Panics, Detail: "the module panicked"})
			}
		}
		for of, n := range failed {
			if of.cluster == a.name && n > a.failed[of] {
				a.find(Finding{Module: of.module, Class: Errors, Detail: "a reconcile failed"})
			}
		}
	}
}

func (r *rehearsal) failed() map[part]float64 { return r.counted("clusterfx_reconcile_total", "error") }

// beginSecond notes the errors of an app so far.
func (r *rehearsal) beginSecond(a *app) {
	failed := r.failed()
	maps.DeleteFunc(failed, func(of part, _ float64) bool { return of.cluster != a.name })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed, a.latest = failed, time.Now()
}

func (r *rehearsal) counted(name, result string) map[part]float64 {
	all := map[part]float64{}
	families, _ := r.metrics.Gather() // What there is beside an error will do.
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if labels := labelsOf(m); family.GetName() == name && labels["result"] == result {
				all[part{labels["cluster"], labels["module"]}] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return all
}

func labelsOf(m *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, l := range m.GetLabel() {
		all[l.GetName()] = l.GetValue()
	}
	return all
}

// memory is in MiB, rounded up, so that the report is the same when it is repeated.
func (r *rehearsal) memory() map[string]int64 {
	all := map[string]int64{}
	for of, bytes := range r.counted("clusterfx_cache_bytes", "") {
		all[cmp.Or(of.cluster, hubParts)] = int64(math.Ceil(bytes / (1 << 20)))
	}
	return all
}

// Load is one of the figures of an app, or of all of them without a Cluster, in the rehearsal and in the running hub. Requests are those
// since the start of each.
type Load struct {
	Cluster   string  `json:"cluster,omitempty"`
	What      string  `json:"what"`
	Rehearsed float64 `json:"rehearsed"`
	Running   float64 `json:"running"`
}

// metricsIn reads a file with metrics.
func metricsIn(file string) (map[string]*dto.MetricFamily, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // There is none.
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s has no metrics: %w", file, err)
	}
	return all, nil
}

// load compares with the running hub, if its metrics are known.
func (r *rehearsal) load() (all []Load) {
	if r.running == nil {
		return nil
	}
	here, _ := prometheus.Gatherers{r.metrics, ctrlmetrics.Registry}.Gather() // What there is beside an error will do.
	for _, family := range here {
		rehearsed, other := figures(family), figures(r.running[family.GetName()])
		for of, n := range rehearsed {
			of.Rehearsed, of.Running = n, other[of]
			all = append(all, of)
		}
	}
	slices.SortFunc(all, func(a, b Load) int { return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.What, b.What)) })
	return all
}

// figures returns the sums of a family by Cluster and kind or verb.
func figures(of *dto.MetricFamily) map[Load]float64 {
	all := map[Load]float64{}
	for _, m := range of.GetMetric() {
		labels, value := labelsOf(m), m.GetCounter().GetValue()+m.GetGauge().GetValue()
		add := func(what string) { all[Load{Cluster: labels["cluster"], What: what}] += value }
		switch of.GetName() {
		case "clusterfx_remote_requests_total":
			add("requests")
		case "clusterfx_cache_objects":
			add("objects of " + labels["kind"])
		case "clusterfx_cache_bytes":
			add("bytes of " + labels["kind"])
			add("bytes in memory")
		case "rest_client_requests_total":
			if labels["host"] == "remote" {
				add(labels["method"] + " requests")
			}
		}
	}
	return all
}

// noteHolds notes which deletes the running hub would hold.
func noteHolds(changes []Change, remotes *registry.Registry) {
	deletes := map[string]int{}
	for _, note := range []bool{false, true} { // First it counts.
		for i := range changes {
			c := &changes[i]
			if c.Action != Delete || c.of.proven {
				continue
			}
			kind := schema.GroupResource{Group: c.of.info.Group, Resource: c.of.info.Resource}
			everywhere := c.Module + " " + kind.String()
			here := everywhere + " in the hub"
			if !c.InHub {
				here = everywhere + " in " + c.Cluster
			}
			perTarget, perFleet := remotes.DeleteLimits(c.Module, kind, nil)
			switch {
			case !note:
				deletes[here] += c.Count
				deletes[everywhere] += c.Count
			case deletes[here] > perTarget:
				c.Note = fmt.Sprintf("would be held after %d", perTarget)
			case deletes[everywhere] > perFleet:
				c.Note = fmt.Sprintf("would be held after %d in all clusters", perFleet)
			}
		}
	}
}
