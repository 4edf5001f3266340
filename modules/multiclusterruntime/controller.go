// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime

import (
	mccontroller "sigs.k8s.io/multicluster-runtime/pkg/controller"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
)

// ControllerOptions returns o with the defaults that every controller of a hub must have:
//
//	mcbuilder.ControllerManagedBy(mgr).
//		WithOptions(multiclusterruntime.ControllerOptions(mgr, mccontroller.Options{MaxConcurrentReconciles: 8}))
//
// Unset fields get the manager's values for controllers, of which multicluster-runtime applies few, and
// SkipNameValidation is true: controller-runtime never frees a name in a process, and a hub builds its controllers
// again after it has lost its lease or a hub part has failed. NewQueue is the one of this package, so that remotes
// take turns.
func ControllerOptions(mgr mcmanager.Manager, o mccontroller.Options) mccontroller.Options {
	o.DefaultFromConfig(mgr.GetControllerOptions())
	if o.SkipNameValidation == nil {
		yes := true
		o.SkipNameValidation = &yes
	}
	if o.NewQueue == nil {
		o.NewQueue = NewQueue(nil)
	}
	return o
}
