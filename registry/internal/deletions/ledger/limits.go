// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Window is how long a delete and a create count.
const Window = 10 * time.Minute

// Limits are the largest losses of one module and resource.
type Limits struct {
	// PerTarget is the limit of one target cluster, PerFleet the limit of all targets together.
	PerTarget, PerFleet int
}

// LimitsFor returns the limits of a resource for a module that sets none: 20 and 100; 3 and 10 for Namespaces,
// CustomResourceDefinitions, PersistentVolumes and PersistentVolumeClaims, whose deletion deletes objects of others or
// loses data.
func LimitsFor(resource schema.GroupResource) Limits {
	switch resource {
	case schema.GroupResource{Resource: "namespaces"}, schema.GroupResource{Resource: "persistentvolumes"},
		schema.GroupResource{Resource: "persistentvolumeclaims"},
		schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:
		return Limits{PerTarget: 3, PerFleet: 10}
	}
	return Limits{PerTarget: 20, PerFleet: 100}
}

// target returns the limit of a target. If the module knows how many objects it owns there, or owned before its deletes, the
// limit is also at most half of them, and at least 1.
func (l Limits) target(owned int) int {
	if owned <= 0 {
		return l.PerTarget
	}
	return min(l.PerTarget, max(owned/2, 1))
}
