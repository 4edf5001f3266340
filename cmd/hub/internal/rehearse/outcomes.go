// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"fmt"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/registry"
)

// outcomes finds panics of reconcilers, and errors of their second round, in the metrics of the apps. What failed and then worked says
// nothing about a version.
func (r *rehearsal) outcomes() {
	for of, n := range r.counted("clusterfx_module_panics_total", "") {
		if n > 0 {
			r.find(Finding{Cluster: of.cluster, Module: of.module, Class: Panics, Detail: "the module panicked"})
		}
	}
	for of, n := range r.failed() {
		if n > r.failedBefore[of] {
			r.find(Finding{Cluster: of.cluster, Module: of.module, Class: Errors, Detail: "a reconcile failed"})
		}
	}
}

// part is a module in one app.
type part struct{ cluster, module string }

func (r *rehearsal) failed() map[part]float64 { return r.counted("clusterfx_reconcile_total", "error") }

// beginSecond notes the errors of an app so far.
func (r *rehearsal) beginSecond(cluster string) {
	for of, n := range r.failed() {
		if of.cluster == cluster {
			r.failedBefore[of] = n
		}
	}
}

func (r *rehearsal) counted(name, result string) map[part]float64 {
	all := map[part]float64{}
	families, _ := r.metrics.Gather() // What there is beside an error will do.
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if labels := labelsOf(m); labels["result"] == result {
				all[part{labels["cluster"], labels["module"]}] += m.GetCounter().GetValue()
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

// holdsOf notes which deletes the running hub would hold.
func (r *rehearsal) holdsOf(changes []Change, remotes *registry.Registry) {
	type what struct{ module, kind, target string }
	perTarget, perFleet := map[what]int{}, map[what]int{}
	target := func(c *Change) string {
		if c.InHub {
			return "the hub"
		}
		return c.Cluster
	}
	for i := range changes {
		if c := &changes[i]; c.Action == Delete && !c.proven {
			perTarget[what{c.Module, c.resource.String(), target(c)}] += c.Count
			perFleet[what{c.Module, c.resource.String(), ""}] += c.Count
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.Action != Delete || c.proven {
			continue
		}
		in, inAll := remotes.DeleteLimits(c.Module, c.resource, nil)
		switch {
		case perTarget[what{c.Module, c.resource.String(), target(c)}] > in:
			c.Note = fmt.Sprintf("would be held after %d", in)
		case perFleet[what{c.Module, c.resource.String(), ""}] > inAll:
			c.Note = fmt.Sprintf("would be held after %d in all clusters", inAll)
		}
	}
}

func resourceOf(o *object) schema.GroupResource {
	return schema.GroupResource{Group: o.info.Group, Resource: o.info.Resource}
}
