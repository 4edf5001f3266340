// SPDX-License-Identifier: Apache-2.0

package guard

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
)

// Cleanup returns the step that removes the finalizer of a host from all objects in a remote when its Cluster is
// deleted. Without it they could not be deleted any more. What the providers have made in the external system stays
// there, and so do the objects and the locks: a hub that registers the remote again goes on with the same attempts.
// Module adds the step by itself; who uses AddTo provides it, as with pipeline.Cleanup.
//
// It needs no other rights than the controller. Objects that the app's credentials may not list in all namespaces are
// taken from its cache.
func Cleanup[O client.Object](mgr ctrl.Manager, host string) registry.CleanupStep {
	return object.Release[O](mgr, host, Prefix+host)
}
