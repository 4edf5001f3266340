// SPDX-License-Identifier: Apache-2.0

// Package project has the addresses of the project for messages and generated files: users of the published module have
// no checkout, so messages name URLs.
package project

// The repository, its pages, and the argument of kubectl apply -k for the CRD.
const (
	repository = "https://github.com/clusterfx/clusterfx"
	pages      = repository + "/blob/main/docs/"
	CRD        = repository + "/config/crd"
	// OwnHub says how to install a hub of one's own.
	OwnHub = pages + "modules.md#install-it"
)

// InstallCRD is the advice for a hub's cluster without the CRD of Clusters.
const InstallCRD = "install the CRD, with \"hub install\" or kubectl apply --server-side -k " + CRD

// Dev is the advice for users without a cluster.
const Dev = "or, without a cluster, run \"hub dev\", which starts some on this machine, and export the KUBECONFIG that it prints"
