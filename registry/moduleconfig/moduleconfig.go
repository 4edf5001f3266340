// SPDX-License-Identifier: Apache-2.0

// Package moduleconfig has the operator's configuration of modules, as the configuration file of the hub has it. It has
// types only; registry.New checks a configuration against the modules of the hub.
package moduleconfig

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config is the operator's configuration of one module.
type Config struct {
	// Name is the module's.
	Name string `json:"name"`
	// Clusters selects the remotes that run the module by the labels of their Clusters, in place of the labels and the
	// OnRequest of the module's Selector; {} selects all remotes. A Cluster with spec.modules runs the modules that it names.
	// Default: as the module's author has decided.
	Clusters *metav1.LabelSelector `json:"clusters,omitempty"`
	// Config overrides the module's defaults, as JSON: fields that are left out keep their defaults.
	Config json.RawMessage `json:"config,omitempty"`
	// Deletes overrides the module's limits of deletes.
	Deletes Deletes `json:"deletes,omitzero"`
	// Overrides override Config and Deletes in their order, each for the remotes whose Cluster has the labels that its Selector
	// matches.
	Overrides []Override `json:"overrides,omitempty"`
}

// Override is a part of a module's configuration for some remotes.
type Override struct {
	Selector metav1.LabelSelector `json:"selector"`
	Config   json.RawMessage      `json:"config,omitempty"`
	Deletes  Deletes              `json:"deletes,omitzero"`
}

// Deletes are limits of deletes. Zero fields change nothing. See package registry/deletes.
type Deletes struct {
	// PerTarget is how many objects of a kind the module may delete in one cluster within ten minutes, and PerFleet how
	// many in all clusters together.
	PerTarget int `json:"perTarget,omitempty"`
	PerFleet  int `json:"perFleet,omitempty"`
}
