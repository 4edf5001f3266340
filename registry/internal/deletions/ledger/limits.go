// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Window is how long a delete and a create count.
const Window = 10 * time.Minute

// Limits are the largest losses of one module and resource.
type Limits struct {
	PerTarget, PerFleet int
}

// LimitsFor returns the default limits of a resource: 20 and 100; 3 and 10 for Namespaces, CustomResourceDefinitions,
// PersistentVolumes and PersistentVolumeClaims, whose deletion deletes objects of others or loses data.
func LimitsFor(resource schema.GroupResource) Limits {
	switch resource {
	case schema.GroupResource{Resource: "namespaces"}, schema.GroupResource{Resource: "persistentvolumes"},
		schema.GroupResource{Resource: "persistentvolumeclaims"},
		schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		schema.GroupResource{Group: "clusterfx.dev", Resource: "clusters"}:
		return Limits{PerTarget: 3, PerFleet: 10}
	}
	return Limits{PerTarget: 20, PerFleet: 100}
}

// hasContent: a new object does not replace an old one. In the hub, this includes Secrets: some register Clusters, and
// the path of a request does not tell which.
func hasContent(k Key) bool {
	switch k.Resource {
	case schema.GroupResource{Group: "apps", Resource: "statefulsets"}:
		return true
	case schema.GroupResource{Resource: "secrets"}:
		return k.Target == ""
	}
	return LimitsFor(k.Resource) != LimitsFor(schema.GroupResource{})
}

// target is at most half of what the module owns, or owned before its deletes, and at least 1.
func (l Limits) target(owned int) int {
	if owned <= 0 {
		return l.PerTarget
	}
	return min(l.PerTarget, max(owned/2, 1))
}

// causes is the limit of all causes together, in limits of one.
const causes = 5

type bound struct {
	cause      string
	lost, most Limits
}

// bounds: a cause has lost no more than all together, since what is created for any of them pays.
func (l *Ledger) bounds(r Request, now time.Time) []bound {
	f, w := l.at(r.Key, now)
	own := bound{r.Cause, Limits{w.loss(), f.sum}, Limits{r.Limits.target(w.owns(r.Owned)), r.Limits.PerFleet}}
	if r.Cause == "" {
		return []bound{own}
	}
	f, w = l.at(r.ofAll(), now)
	all := bound{r.ofAll().Cause, Limits{w.loss(), f.sum}, Limits{causes * r.Limits.PerTarget, causes * r.Limits.PerFleet}}
	own.lost = Limits{min(own.lost.PerTarget, all.lost.PerTarget), min(own.lost.PerFleet, all.lost.PerFleet)}
	return []bound{own, all}
}

func (b *bound) left() int {
	return min(b.most.PerTarget-b.lost.PerTarget, b.most.PerFleet-b.lost.PerFleet)
}

// begin returns the Hold of a delete beyond the bound, or nil.
func (b *bound) begin(r Request, now time.Time) *hold {
	if r.Objects <= b.left() {
		return nil
	}
	h := &hold{asked: map[string]int{}, from: map[state.ClusterName]time.Time{}, Held: Held{
		ID: newID(r.Module, r.Resource.Resource), Saved: holds.Saved{
			Module: r.Module, Group: r.Resource.Group, Resource: r.Resource.Resource, Cluster: string(r.Target), Cause: b.cause,
			Since: metav1.NewTime(now), Deleted: b.lost.PerTarget + r.Counted, Note: r.Note,
		},
	}}
	if b.lost.PerFleet+r.Objects > b.most.PerFleet {
		h.Fleet, h.Deleted = true, b.lost.PerFleet
	}
	if !h.IsOfTarget() {
		h.Replica = r.Replica
	}
	h.ask(r, now)
	return h
}
