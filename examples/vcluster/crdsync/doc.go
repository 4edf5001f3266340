// SPDX-License-Identifier: Apache-2.0

/*
Package crdsync is the example crd-sync of vcluster-sdk: it copies the custom resources of the tenant, which is upstream, to
the host. It brings the CustomResourceDefinition to the host, too.

In the original the definition goes the other way, from the host to the tenant. Package syncer never writes a definition
upstream, because a kind that appears there is a change for all users of that cluster. The original has a Go type for its kind;
here the objects are unstructured, so that any kind will do. The syncers are counted without the type.

	original    crd-sync, v0.4.2    56 lines, and 68 lines for the type
	this one    crdsync.go          25 lines
*/
package crdsync
