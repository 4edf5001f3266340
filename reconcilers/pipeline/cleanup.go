// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
)

// Cleanup returns the step that removes the finalizer of a pipeline from all objects in a remote when its Cluster is
// deleted. The objects stay, and so does what the resources have created. Module adds the step; with AddTo you must
// provide it:
//
//	fx.Provide(registry.AsCleanup(func(mgr ctrl.Manager) registry.CleanupStep {
//		return pipeline.Cleanup[*v1.Database](mgr, "databases") // Options.Name
//	}))
//
// It needs the pipeline's permissions. If the app may not list all namespaces, the objects in its cache are used.
func Cleanup[O client.Object](mgr ctrl.Manager, pipeline string) registry.CleanupStep {
	return object.Release[O](mgr, pipeline, Prefix+pipeline)
}
