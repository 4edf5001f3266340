// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime

import (
	mccontroller "sigs.k8s.io/multicluster-runtime/pkg/controller"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
)

// ControllerOptions returns o with the defaults that a controller of a hub needs. Every controller gets them:
//
//	mcbuilder.ControllerManagedBy(mgr).
//		WithOptions(multiclusterruntime.ControllerOptions(mgr, mccontroller.Options{MaxConcurrentReconciles: 8}))
//
// multicluster-runtime applies few defaults of the manager to its controllers. Unset fields of o get the values of the
// manager for controllers, such as ReconciliationTimeout and RecoverPanic, and two fields get other defaults:
//
//   - SkipNameValidation is true. controller-runtime accepts the name of a controller once per process and never frees
//     it, but a hub builds its controllers again in the same process: after it has lost its lease, and after their hub
//     part has failed. A controller without this option fails then, with "controller with name ... already exists".
//   - NewQueue is the NewQueue of this package, so that remotes take turns.
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
