// SPDX-License-Identifier: Apache-2.0

/*
Package inventory is a remote module, and the model for others: it counts the Nodes of each remote, adds up their allocatable
resources, and reports both as status.inventory of the Cluster. fx.go declares the module; reconciler.go is ordinary
controller-runtime code.

	in the remote   nodes                          get, list, watch
	in the hub      clusters.clusterfx.dev         get
	                clusters.clusterfx.dev/status  patch

Every event becomes the same request; heartbeats of Nodes are filtered out. The start makes the first request, since a remote
without Nodes has an inventory, too. A difference is written once in an Interval, otherwise requeued, so that the last of many
changes is reported. The write is server-side apply of its own fields, so that several writers share one status. The cache
is the app's, which all modules share, and therefore holds whole Nodes.
*/
package inventory
