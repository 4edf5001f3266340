// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of clusterfx: the group clusterfx.dev, in version v1alpha1.
//
// Its one kind is Cluster, which registers a remote with the hub. A Cluster is cluster-scoped and names a Secret; the
// Secret always lives in the hub's credentials namespace, so that the hub needs to read Secrets in one namespace only
// and users cannot register a remote with a Secret that they have no access to.
//
// # Usage
//
// The spec is the desired state, the status the observed state. Ready is the summary condition, and every other
// condition reports a step towards it:
//
//	CredentialsValid -> Reachable -> IdentityConfirmed -> ModulesReady -> Ready
//
// A program that only waits needs no knowledge of this package: kubectl wait --for=condition=Ready
// and every tool that follows kstatus read a Cluster correctly, from the moment it is created.
//
// Status is written by server-side apply, with one field manager for each writer: the Cluster
// reconciler owns everything except status.inventory, which belongs to the inventory module. The
// types to apply with are in the applyconfiguration folder.
//
// # Considerations
//
// The API server refuses a whole status for one string that is too long, so writers cut foreign texts to the Max
// constants of this package.
//
// Validation is CEL in the schema and no webhook, so a Cluster can be created while no hub runs. Rules that depend on
// the hub's configuration (allowed addresses and kinds of credentials) are not validated here: the CredentialsValid
// condition reports them.
//
// The package imports apimachinery and nothing else: a client of the API pulls in no controller.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package=applyconfiguration
// +groupName=clusterfx.dev
package v1alpha1
