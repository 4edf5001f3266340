// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// news drops Secrets that exist when the watch begins: every Cluster is reconciled after that, and reads its Secret.
func news() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// moreThanInventory drops updates of the inventory only, which changes most often; nothing here depends on it.
func moreThanInventory() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, wasCluster := e.ObjectOld.(*hubv1.Cluster)
		after, isCluster := e.ObjectNew.(*hubv1.Cluster)
		if !wasCluster || !isCluster || before.ResourceVersion == after.ResourceVersion {
			return true
		}
		return !equality.Semantic.DeepEqual(withoutInventory(before), withoutInventory(after))
	}}
}

// withoutInventory returns a shallow copy without the fields that change together with an inventory.
func withoutInventory(c *hubv1.Cluster) *hubv1.Cluster {
	rest := *c
	rest.Status.Inventory = hubv1.InventoryStatus{}
	rest.ResourceVersion, rest.ManagedFields = "", nil
	return &rest
}
