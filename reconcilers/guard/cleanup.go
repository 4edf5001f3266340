// SPDX-License-Identifier: Apache-2.0

package guard

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
)

// Cleanup returns the step that removes the finalizer of a host from all objects in a remote when its Cluster is
// deleted. Without the step these objects could no longer be deleted. The resources in the external system stay, and so
// do the objects and the locks: a hub that registers the remote again continues with the same attempts. Module adds the
// step; with AddTo, provide it yourself, as with pipeline.Cleanup.
//
// It needs the same permissions as the controller. If the app's credentials may not list the objects in all namespaces,
// the step uses the objects in the app's cache.
func Cleanup[O client.Object](mgr ctrl.Manager, host string) registry.CleanupStep {
	return object.Release[O](mgr, host, Prefix+host)
}
