// SPDX-License-Identifier: Apache-2.0

/*
Package rehearse runs the modules of a hub beside the running hub, turns every write into a dry run, and reports what would change.

	report, err := rehearse.Run(ctx, rehearse.Options{Hub: options, ...})

A dry run changes nothing, so no watch tells a module about it. Each controller therefore reconciles everything twice, and what
counts in the end is the effective change: what the last request of a field manager asked for, and the live object, read again, does
not have. A hub that keeps the world as it is has an empty report.

A recorder stands in the transports of each app, to its remote (registry.Middleware) and to the hub (registry.Rehearsal), and reads
an object before each write, so that the difference to the dry run's answer is known (recorder.go, object.go, diff.go). A write that
repeats one at the same version of the object is answered from memory. An app is at rest when its controllers have done everything
twice and no new write came for a time (stage.go). Writes that differ each time, too many of them, or of objects that exist only in
a dry run are findings (Class).

The account of a rehearsal in a remote may only dry-run, which a policy of the remote holds; policy.go sees to it that this is so.
*/
package rehearse
