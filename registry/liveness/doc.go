// SPDX-License-Identifier: Apache-2.0

/*
Package liveness detects goroutines of the hub that make no progress. One Monitor watches everything for one run of
the hub:

	monitor := liveness.New(liveness.Options{Log: log})
	go monitor.Run(ctx)
	controller.Options{NewQueue: liveness.Queue(monitor, liveness.Subject{Controller: "cluster"}, liveness.Request())}
	heart := monitor.Watch(liveness.Subject{Cluster: "edge-1"}, func(h *liveness.Heart) { post(h.Beat) })
	defer heart.Stop()

Every ten seconds each subject gets a heartbeat. In a controller it is a request above all priorities, which the queue
takes out when a worker comes, so that no reconciler sees it. Three misses in a row make Err an error, with which the
hub fails /healthz and does not renew its lease; the next beat clears it. A beat is about goroutines, not about work:
any worker that asks for work beats, so a controller is stuck only while all of its workers are in a reconcile.
Reconciles of the hub must therefore end within ReconcileTimeout. A queue is watched from its first worker on.

A hub part's controller gets its queue with Attach, before it starts. A Subject with a Module is shown by Missed and
the metric, and never makes Err an error.

Time in which the process was starved does not count (Pulse): a node without CPU would pass the lease to the next, and
back. The Monitor never waits for its subjects, and its own goroutine is vital, too. Heartbeats appear in the
workqueue_* metrics, with the priority 1000.
*/
package liveness
