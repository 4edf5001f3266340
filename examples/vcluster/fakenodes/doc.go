// SPDX-License-Identifier: Apache-2.0

/*
Package fakenodes is vcluster's FakeSyncer of Nodes: the tenant has a Node, with the status of one that is ready, for each
spec.nodeName of its Pods or their copies, but for Pods of DaemonSets. The host's Nodes are not read. Unlike the original it
repeats a failed write and leaves Nodes without the label Fake alone; it makes no Service for each Node.

	original    fake_syncer.go of vcluster v0.15.0    292 lines, and 76 lines of functions that it uses
	this one    fakenodes.go                          170 lines
*/
package fakenodes
