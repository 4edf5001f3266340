// SPDX-License-Identifier: Apache-2.0

package guard

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
)

// Cleanup returns the step that removes the finalizer of a host from all objects in a remote when its Cluster is
// deleted. External resources, objects and locks stay, so a hub that registers the remote again continues the same
// attempts. Module adds the step; with AddTo you must provide it. It needs the permissions of the controller. If the
// app may not list all namespaces, the objects in its cache are used.
func Cleanup[O client.Object](mgr ctrl.Manager, host string) registry.CleanupStep {
	return object.Release[O](mgr, host, Prefix+host)
}
