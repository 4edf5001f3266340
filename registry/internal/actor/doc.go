// SPDX-License-Identifier: Apache-2.0

/*
Package actor runs the goroutine of each remote, in which everything about the remote is decided.

An Actor takes desired states from the registry, and facts from the goroutines that probe the remote and run its apps.
For each step it lets package machine decide, and carries out the actions. It waits for nothing but its inbox and the
clock; work that waits runs in goroutines that it owns, and posts a fact. Others read its Snapshot, without waiting. A
Common has what all Actors share, and the only functions that lead back to the registry. Read Actor.step first.
*/
package actor
