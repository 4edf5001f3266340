// SPDX-License-Identifier: Apache-2.0

/*
Package liveness detects goroutines of the hub that no longer make progress.

# Usage

One Monitor watches everything for one term of the hub:

	monitor := liveness.New(liveness.Options{Log: log})
	go monitor.Run(ctx)

The hub's own controllers take their queues from this package, with a request that no object can have:

	controller.Options{NewQueue: liveness.Queue(monitor, liveness.Subject{Controller: "cluster"}, liveness.Request())}

A goroutine with an inbox is watched with Watch. The function posts a no-op that calls Beat:

	heart := monitor.Watch(liveness.Subject{Cluster: "edge-1"}, func(h *liveness.Heart) { post(h.Beat) })
	defer heart.Stop()

Err is an error while something vital makes no progress. The hub fails /healthz and does not renew its lease then.

# Controllers of hub parts

A controller of a module is built by the module, so its queue is replaced when the controller is added to the
manager, before the controller starts. A manager that the hub hands to a hub part does that in Add:

	liveness.Attach(monitor, liveness.Subject{Module: module, Controller: name}, runnable, liveness.Request())

Attach returns false for a controller whose requests have another type. Try the types that are likely, one after
the other, each with a value that no object can have. A Subject with a Module is shown by Missed and by
the metric; it never makes Err an error.

# How it works

Every ten seconds the Monitor sends each subject a heartbeat. A heartbeat of a controller is a request in the
controller's queue, with a priority above all others. The queue takes it out again when a worker comes for work,
so no reconciler ever sees one. A heartbeat is missed when it has not arrived after ten seconds; three misses in
a row make Err an error, and the next beat clears it.

A beat is a fact about goroutines, not about work. Any worker that asks for more work is a beat, with or without a
heartbeat in the queue. So a controller with a long queue is alive, and so is a controller whose reconciles all fail. A
controller is stuck while all of its workers are in a reconcile. Reconcilers therefore need deadlines that are shorter
than three heartbeats; ReconcileTimeout is for the hub's own controllers.

A queue is watched from the moment in which its first worker comes for work, until the queue shuts down. A standby
has no workers, and a controller that waits for its caches has none yet.

Time in which the process was starved does not count: it was frozen, or did not get the processor in time, at a stretch
or in many short pieces. Pulse measures that; probes of remotes use the same Pulse. Otherwise a node without CPU would
pass the lease to the next node without CPU, and back.

The Monitor never waits for its subjects. It sends each heartbeat in a goroutine of the subject, one at a time, so a
queue that does not return from Add delays no other heartbeat; the same holds for the functions of Notify. Run waits for
these goroutines at its end, for a second. The Monitor's own goroutine is a vital subject, too, with the controller name
"liveness": Err is an error while no check was finished for three intervals.

# Considerations

Heartbeats are items of the queue. They appear in its workqueue_* metrics, one every ten seconds, with the
priority 1000, and in no metric of reconciles.
*/
package liveness
