// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Request asks a reconciler on the hub to reconcile one object.
type Request struct {
	// Cluster is the remote that the object is in. It is empty for an object of the hub.
	Cluster state.ClusterName
	// NamespacedName names the object. It is empty if Lost is set.
	types.NamespacedName
	// Lost is true if the remote has left the hub or is no longer selected, so that the state kept for it can be
	// cleaned up. Only sources with Options.TellLost make such requests. The remote may be back when the request is
	// handled, or another replica of the hub may have it: call Registry.Status and Registry.IsElsewhere before cleaning up.
	Lost bool
}

// String returns the request for a log: cluster/namespace/name.
func (r Request) String() string {
	if r.Lost {
		return string(r.Cluster) + " (lost)"
	}
	if r.Cluster == "" {
		return r.NamespacedName.String()
	}
	return string(r.Cluster) + "/" + r.NamespacedName.String()
}
