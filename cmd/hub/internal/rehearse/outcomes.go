// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"fmt"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/registry"
)

// outcomes finds errors and panics of reconcilers in the metrics of the apps.
func (r *rehearsal) outcomes() {
	families, _ := r.metrics.Gather() // What there is beside an error will do.
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if m.GetCounter().GetValue() == 0 {
				continue
			}
			labels := labelsOf(m)
			f := Finding{Cluster: labels["cluster"], Module: labels["module"]}
			switch {
			case family.GetName() == "clusterfx_module_panics_total":
				f.Class, f.Detail = Panics, "the module panicked"
			case family.GetName() == "clusterfx_reconcile_total" && labels["result"] == "error":
				f.Class, f.Detail = Errors, "a reconcile failed"
			default:
				continue
			}
			r.find(f)
		}
	}
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
