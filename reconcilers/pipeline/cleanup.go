// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
)

// Cleanup returns the step that removes the finalizer of a pipeline from all objects in a remote when its Cluster is
// deleted. Without the step these objects could no longer be deleted. The objects stay, and so does everything that the
// resources have created; a module that needs more adds a step of its own, with any Order, which deletes it. Module adds
// the step; with AddTo, provide it yourself:
//
//	fx.Provide(registry.AsCleanup(func(mgr ctrl.Manager) registry.CleanupStep {
//		return pipeline.Cleanup[*v1.Database](mgr, "databases") // Options.Name
//	}))
//
// It needs the same permissions as the pipeline. If the app's credentials may not list the objects in all namespaces,
// the step uses the objects in the app's cache.
func Cleanup[O client.Object](mgr ctrl.Manager, pipeline string) registry.CleanupStep {
	return object.Release[O](mgr, pipeline, Prefix+pipeline)
}
