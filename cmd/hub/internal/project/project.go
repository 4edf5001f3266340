// SPDX-License-Identifier: Apache-2.0

// Package project has the addresses of the project for messages and generated files. The users of the published module have
// no checkout, so a message names a URL and no path in the repository.
package project

// The repository, its pages, and what kubectl apply -k takes for the CRD.
const (
	repository = "https://github.com/clusterfx/clusterfx"
	pages      = repository + "/blob/main/docs/"
	CRD        = repository + "/config/crd"
	// OwnHub is the page on hubs of one's own.
	OwnHub = pages + "own-hub.md"
)

// InstallCRD is what to do where a hub's cluster does not know Cluster objects.
const InstallCRD = "install the CRD, with \"hub install\" or kubectl apply --server-side -k " + CRD

// Dev is what to do without a cluster.
const Dev = "or, without a cluster, run \"hub dev\", which starts some on this machine"
