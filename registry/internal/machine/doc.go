// SPDX-License-Identifier: Apache-2.0

/*
Package machine is the state machine of one remote: when connections open, when apps start, stop or are replaced, and
which credential is used. Read it first to understand the registry.

A [Machine] is pure, so tests run thousands of histories in a second: no goroutine, no clock, no I/O.

  - [Machine.ApplyWant] takes the desired state, [Machine.Apply] a [Fact], such as the result of a probe.
  - [Machine.Decide] returns the actions that are due, which the registry starts.
  - [Machine.WakeAt] says when Decide must be called again without a new fact.
  - [Machine.Status] describes the remote.

Decide looks at what is known, never at the order in which it arrived: a lost or repeated fact can delay a decision,
but not lead to another.
*/
package machine
