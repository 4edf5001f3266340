// SPDX-License-Identifier: Apache-2.0

/*
Package mode changes a hub between leader mode, in which one hub works and the others stand by, and Sharded mode, in which replicas
share the Clusters. Hubs of the two modes never work at once. docs/design/runners.md has the protocol, and the reason of each step.

	sharded, err := mode.NewSharded(mode.Options{Config: config, Namespace: ns, Name: "clusterfx-hub", ...})
	go sharded.Run(ctx)
	permitted, err := sharded.Await(ctx)  // replicas work until permitted ends
	err = sharded.Confirm(ctx)            // after each claim of the Lease of a replica

	back, err := mode.NewWayBack(options, observer.Running)
	go back.Run(ctx) // in a hub that is a candidate in leader mode, until it leads

# The lock

The Lease of leader mode is the only lock, and has the whole state of the change:

	any other holder                  leader mode: the election of package lease, or of client-go in another version
	<namespace>/clusterfx-sharding    Sharded mode: this installation has the Lease for ten years, so that no candidate acquires it
	... and annotation way-back       the way back: replicas neither begin nor continue to work

A [Sharded] acquires the Lease as a candidate does: with a compare-and-swap, if the Lease is released, or unchanged for the
duration that it names. The holder is the installation and no replica, so it does not depend on the life of a replica. While
replicas run, Sharded reads the Lease every few seconds. It restores a Lease that an administrator has changed. If a hub in leader
mode has acquired the Lease meanwhile, or the Lease is missing in spite of its finalizer, so that a hub may have acquired and lost
it, the replicas close their gates at once, and begin again as candidates.

A [WayBack] stands by while a replica runs. When all have ended, it writes the annotation, looks again, and releases the Lease by
a compare-and-swap. A replica reads the Lease after it has claimed its own, and the WayBack reads the Leases of the replicas after
it has written the annotation: so one of them sees the other.

The decisions are in decide.go, without a clock or a client, and model_test.go tries all orders of their steps.
*/
package mode
