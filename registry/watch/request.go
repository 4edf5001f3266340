// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Request asks a reconciler on the hub to reconcile one object.
type Request struct {
	// Cluster is the object's remote; empty for one of the hub.
	Cluster state.ClusterName
	// NamespacedName is empty if Lost is set.
	types.NamespacedName
	// Lost: the remote has left the hub or is no longer selected, so that its state can be cleaned up. Only sources
	// with Options.TellLost say it. The remote may be back by then, or another replica may have it: call
	// Registry.Status and Registry.IsElsewhere first.
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
