// SPDX-License-Identifier: Apache-2.0

/*
Package inventory is a remote module: in the app of every remote it counts the Nodes, adds up their allocatable
resources, and reports both as status.inventory of the remote's Cluster.

	status:
	  inventory:
	    nodes: 3
	    readyNodes: 3
	    allocatable: {cpu: "12", memory: 48Gi}

It is also the module to copy when writing one: a file that declares the module (fx.go), and a file with its reconciler
(reconciler.go), which is ordinary controller-runtime code.

# Permissions

	in the remote   nodes                          get, list, watch
	in the hub      clusters.clusterfx.dev         get
	                clusters.clusterfx.dev/status  patch

Without the first permission the module waits, which the condition ModulesReady reports, and starts when the permission
is granted.

# How it works

Every change of a Node has the same consequence: a new count. So every event becomes the same request, and events that
do not change the counts are filtered out, such as the heartbeats of a thousand Nodes. The start of the controller makes
the first request, because a remote without Nodes also has an inventory.

The reconciler reads the Cluster first, and writes it only if the inventory differs and Interval has passed since the
last write. Before that it requeues the request for the remaining time: nothing sleeps, and the last of many changes is
always reported.

# Why it is built this way

The module writes the inventory with server-side apply, as its own field manager and with its own fields only. So the
reconciler of the hub, this module and yours can write to one status independently.

The Nodes come from the app's cache, which all modules share: reading a kind in two modules costs nothing. That is why
it holds whole Nodes, although five of their fields would be enough.
*/
package inventory
