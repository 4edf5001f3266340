// SPDX-License-Identifier: Apache-2.0

/*
Package machine is the state machine of one remote. It decides when a connection is opened, when an app starts, stops or
is replaced by another app, and which credential a connection uses. Read this package first to understand the
registry.

A [Machine] is pure: it starts no goroutine, reads no clock and does no I/O, so that tests run thousands of histories in
a second. Two things go in and three come out:

  - [Machine.ApplyWant] takes the part of the desired state that decisions need.
  - [Machine.Apply] takes a [Fact]: the result of a probe, or the end of an app. Facts are values.
  - [Machine.Decide] compares both and returns the actions that are due, which the registry then starts.
  - [Machine.WakeAt] is the time at which Decide must be called again without a new fact.
  - [Machine.Status] describes the remote for the outside.

The machine is level-based: Decide looks at the known facts only, never at the order in which they arrived. A lost or
repeated fact can delay a decision; it cannot lead to another decision.

The files: machine.go has the state and how facts change it, facts.go the facts, decide.go the decisions, backoff.go
the time between restarts, connection.go the results of probes, identity.go which cluster a remote may be,
credential_trial.go which credential a connection uses, status.go the description.
*/
package machine
