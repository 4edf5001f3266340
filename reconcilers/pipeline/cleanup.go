// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
)

// Cleanup returns the step that removes the finalizer of a pipeline from all objects in a remote when its Cluster is
// deleted. Without it they could not be deleted any more. What the resources have made stays where it is, and the
// objects stay, too; a module that wants it otherwise has a step of its own, with any Order, which deletes it. Module
// adds the step by itself; who uses AddTo provides it:
//
//	fx.Provide(registry.AsCleanup(func(mgr ctrl.Manager) registry.CleanupStep {
//		return pipeline.Cleanup[*v1.Database](mgr, "databases") // Options.Name
//	}))
//
// It needs no other rights than the pipeline. Objects that the app's credentials may not list in all namespaces are
// taken from its cache.
func Cleanup[O client.Object](mgr ctrl.Manager, pipeline string) registry.CleanupStep {
	return object.Release[O](mgr, pipeline, Prefix+pipeline)
}
