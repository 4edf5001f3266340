// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Settings configure the controller. The zero value is safe: it allows nothing beyond the defaults.
type Settings struct {
	Namespace string // Namespace is the credentials namespace, the only one whose Secrets are read. Default clusterfx-system.
	// Policy limits the credentials that the hub uses; the registry has the same policy. Default: the strictest policy.
	Policy kubeconfig.Policy
	// HubID keys the fingerprints of credentials in status, so that the fingerprints of two hubs cannot be
	// compared. Default: no key.
	HubID string
	// Concurrency is how many Clusters the controller reconciles at the same time.
	// Default 50: each mostly waits for the response to a read of a Secret.
	Concurrency int
	// RemoveWithin is how long the modules' cleanup steps, and the end of an app, may take when its Cluster is deleted. Steps that
	// are not done by then are given up, and an event names them at most 3 s later. Default 25 s.
	RemoveWithin time.Duration
	// Journal is the name of the journal of starts: the prefix of the names of its ConfigMaps in Namespace. Hubs that share
	// their Clusters have a journal each. Default: JournalName.
	Journal          string
	AggregateMetrics bool // AggregateMetrics leaves the names of Clusters out of metrics. Default: false.
}

const (
	defaultConcurrency  = 50
	defaultRemoveWithin = 25 * time.Second
)

func (s Settings) withDefaults() Settings {
	if s.Namespace == "" {
		s.Namespace = hubv1.DefaultNamespace
	}
	if s.Journal == "" {
		s.Journal = JournalName
	}
	if s.Concurrency <= 0 {
		s.Concurrency = defaultConcurrency
	}
	if s.RemoveWithin <= 0 {
		s.RemoveWithin = defaultRemoveWithin
	}
	return s
}
