// SPDX-License-Identifier: Apache-2.0

/*
Package liveness detects controllers of the hub that make no progress. One Monitor watches them for one run of the hub:

	monitor := liveness.New(liveness.Options{Log: log})
	go monitor.Run(ctx)
	controller.Options{NewQueue: liveness.Queue[ctrl.Request](monitor, liveness.Subject{Controller: "cluster"})}

A controller is stuck when work waits in its queue and no worker has asked for more for 30 s: each is in a reconcile.
One free worker is enough, so reconciles of the hub must end within ReconcileTimeout. While a controller of the hub is
stuck, Err is an error, with which the hub fails /healthz and does not renew its lease. A controller of a hub part,
whose queue has Wrap, is shown by Stuck, and never makes Err an error.

Time in which the process was starved does not count (Pulse): a node without CPU would pass the lease to the next, and
back. The Monitor never waits for a queue, which may be a module's.
*/
package liveness
