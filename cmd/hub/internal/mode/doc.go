// SPDX-License-Identifier: Apache-2.0

/*
Package mode changes a hub between leader mode, in which one hub works, and Sharded mode, in which replicas share the
Clusters. Hubs of the two modes never work at once; docs/design/runners.md has the protocol and its reasons.

	sharded, err := mode.NewSharded(mode.Options{Config: config, Namespace: ns, Name: "clusterfx-hub", ...})
	go sharded.Run(ctx)
	permitted, err := sharded.Await(ctx)  // replicas work until permitted ends
	err = sharded.Confirm(ctx)            // after each claim of the Lease of a replica

	back, err := mode.NewWayBack(options, observer.Running)
	go back.Run(ctx) // in a candidate of leader mode, until it leads

The Lease of leader mode is the only lock, and has the whole state:

	any other holder                  leader mode: the election of package lease, or of client-go
	<namespace>/clusterfx-sharding    Sharded mode: held for ten years, so that no candidate acquires it
	... and annotation way-back       the way back: replicas neither begin nor continue to work

A [Sharded] acquires it with a compare-and-swap, as a candidate does, for the installation and no single replica. It
restores a Lease that an administrator has changed. If a hub in leader mode has it, or it is missing in spite of its
finalizer, the replicas close their gates at once and begin again.

A [WayBack] waits until all replicas have ended, writes the annotation, looks again, and releases the Lease. A replica
reads the Lease after it has claimed its own, and the WayBack the replicas' Leases after the annotation: one of them
sees the other. Decisions are in decide.go, without a clock or a client; model_test.go tries all orders.
*/
package mode
