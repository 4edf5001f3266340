// SPDX-License-Identifier: Apache-2.0

/*
Package fakenodes is vcluster's FakeSyncer of Nodes: the tenant has a Node for each name that a Pod has in spec.nodeName, and the
host's Nodes are not read.

A Node is needed by a Pod of the tenant on it, or by the copy of such a Pod that is already on it in the host, but not by the
Pods of DaemonSets. The Node gets the status of a Node that is ready. Each reconcile compares it, so that a write that failed is
made up for, which the original does not do. Nodes without the label Fake are not changed; the original deletes them, too. The
option of the original that makes a Service in the host for each Node, to give it an address, is left out.

	original    fake_syncer.go of vcluster v0.15.0    292 lines, and 76 lines of functions that it uses
	this one    fakenodes.go                          171 lines
*/
package fakenodes
