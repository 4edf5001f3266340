// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"sigs.k8s.io/controller-runtime/pkg/source"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// Tunnels knows the agents of Clusters with spec.via: Tunnel. Its methods are for many goroutines, and do not block.
type Tunnels interface {
	// Status returns the state of an agent, with times in seconds, as the API server stores them.
	Status(cluster *hubv1.Cluster) hubv1.TunnelStatus
	Source() source.Source // Source triggers a reconcile of each Cluster whose agent has connected or gone.
}
