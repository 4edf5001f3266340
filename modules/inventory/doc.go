// SPDX-License-Identifier: Apache-2.0

/*
Package inventory is a remote module: in the app of every remote it counts the Nodes and adds up
what they offer to Pods, and reports that as status.inventory of the remote's Cluster.

	status:
	  inventory:
	    nodes: 3
	    readyNodes: 3
	    allocatable: {cpu: "12", memory: 48Gi}

It is also the module to copy when writing one: a file that says what the module is (fx.go), and
one that does the work (reconciler.go), which is ordinary controller-runtime code.

# Rights

	in the remote   nodes                          get, list, watch
	in the hub      clusters.clusterfx.dev         get
	                clusters.clusterfx.dev/status  patch

Without the first of them the module waits, says so in the condition ModulesReady, and starts when
the right is granted.

# How it works

Whatever happens to a Node, there is one thing to do: count again. So every event becomes the same
request, and events that change nothing that is counted become none; what remains of the
heartbeats of a thousand Nodes is nothing. The first request does not come from a Node but from the
start of the controller, because a remote without Nodes has an inventory, too.

The Cluster is read before it is written, and written only if the inventory differs, and not
sooner than Interval after the last time. In between, the request is put back with the time that is
left: nothing sleeps, and the last of many changes is always reported.

# Why it is built this way

The inventory is written with server-side apply, by a field manager of its own and with its own
fields only. That is what lets the reconciler of the hub, this module and yours write into one
status without knowing of each other.

The Nodes come from the app's cache, which all modules share: asking for a kind twice costs
nothing. That is why it holds whole Nodes, although five fields of them would do.
*/
package inventory
