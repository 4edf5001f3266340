// SPDX-License-Identifier: Apache-2.0

/*
Package actor runs the goroutine of each remote, in which everything about the remote is decided.

An Actor takes desired states from the registry, and facts from the goroutines that probe the remote and run its apps.
For each step it lets the state machine of the package machine decide, and carries out the actions: it opens and closes
connections, starts and stops apps, chooses the modules of the remote, tries new credentials. It waits for nothing but
its inbox and the clock, so it handles a new desired state at once, independent of the remote. Work that waits runs in
goroutines that the Actor owns, and posts a fact when it is done.

Other goroutines read the Snapshot of an Actor, which is replaced after each change. Reading never waits for the Actor.

What all Actors share is in a Host. The functions in it are the only way from an Actor back to the registry.

Read actor.go first: Actor.step is one step.
*/
package actor
