// SPDX-License-Identifier: Apache-2.0

// Package moduleconfig has the operator's configuration of modules, as in the configuration file of the hub: types
// only, which registry.New checks.
package moduleconfig

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config is the operator's configuration of one module.
type Config struct {
	Name string `json:"name"`
	// Clusters selects remotes by the labels of their Clusters, in place of the labels and OnRequest of the module's
	// Selector; {} selects all. A Cluster with spec.modules runs those. Default: as the module's author has decided.
	Clusters *metav1.LabelSelector `json:"clusters,omitempty"`
	// Config overrides the module's defaults, as JSON: missing fields keep their defaults.
	Config json.RawMessage `json:"config,omitempty"`
	// Deletes overrides the module's limits of deletes.
	Deletes Deletes `json:"deletes,omitzero"`
	// Overrides override Config and Deletes in their order, for remotes whose Cluster's labels match.
	Overrides []Override `json:"overrides,omitempty"`
}

// Override is a part of a module's configuration for some remotes.
type Override struct {
	Selector metav1.LabelSelector `json:"selector"`
	Config   json.RawMessage      `json:"config,omitempty"`
	Deletes  Deletes              `json:"deletes,omitzero"`
}

// Deletes are limits; zero fields change nothing. See package registry/deletes.
type Deletes struct {
	// PerTarget objects of a kind in one cluster within ten minutes, PerFleet in all clusters.
	PerTarget int `json:"perTarget,omitempty"`
	PerFleet  int `json:"perFleet,omitempty"`
}
