// SPDX-License-Identifier: Apache-2.0

/*
Package crdsync is vcluster-sdk's example crd-sync: it copies custom resources of the tenant, upstream, to the host, with their
definition. In the original that goes the other way; package syncer never writes one upstream, where it would change the cluster
for all its users. The objects are unstructured, so any kind will do.

	original    crd-sync, v0.4.2    56 lines, and 68 lines for the type
	this one    crdsync.go          25 lines
*/
package crdsync
