// SPDX-License-Identifier: Apache-2.0

/*
Package contention finds fights over fields: two clients each set a field to a value of their own, again and again.

A flip is a field that has another value although the caller has written its value before. More than Flips within Window are
a fight: the caller must pause before each further write, first for FirstPause, then twice as long up to LongestPause. The
fight ends when no flip was recorded for Window after a pause.

Flips count per field, so that edits of several fields are no fight. Pauses are per object, because writes are. Memory is
bounded, in keys and in fields of a key. Pauses have no jitter. The package has no clock, client or goroutine.
*/
package contention
