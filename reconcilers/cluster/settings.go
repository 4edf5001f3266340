// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/source"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Settings configure the controller. The zero value is safe: it allows nothing beyond the defaults.
type Settings struct {
	Namespace string // Namespace is the credentials namespace, the only one whose Secrets are read. Default clusterfx-system.
	// Policy limits the credentials that the hub uses; the registry has the same policy. Default: the strictest policy.
	Policy      kubeconfig.Policy
	HubID       string // HubID keys the fingerprints in status, so that those of two hubs cannot be compared. Default: no key.
	Concurrency int    // Concurrency of reconciles. Default 50: each mostly waits for the read of a Secret.
	// RemoveWithin bounds cleanup steps and the app's end on deletion; an event names missed steps 3 s later. Default 25 s.
	RemoveWithin     time.Duration
	Replica          string // Replica is the name of a hub that shares the Clusters with others. Default: none, for a hub that has all of them.
	AggregateMetrics bool   // AggregateMetrics leaves the names of Clusters out of metrics. Default: false.
}

const (
	defaultConcurrency  = 50
	defaultRemoveWithin = 25 * time.Second
)

func (s Settings) withDefaults() Settings {
	s.Namespace = cmp.Or(s.Namespace, hubv1.DefaultNamespace)
	s.Concurrency = cmp.Or(max(s.Concurrency, 0), defaultConcurrency)
	s.RemoveWithin = cmp.Or(max(s.RemoveWithin, 0), defaultRemoveWithin)
	return s
}

// Tunnels knows the agents of Clusters with spec.via: Tunnel. Its methods are for many goroutines, and do not block.
type Tunnels interface {
	// Status returns the state of an agent, with times in seconds, as the API server stores them.
	Status(cluster *hubv1.Cluster) hubv1.TunnelStatus
	Source() source.Source // Source triggers a reconcile of each Cluster whose agent has connected or gone.
}
