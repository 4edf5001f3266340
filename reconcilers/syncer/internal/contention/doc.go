// SPDX-License-Identifier: Apache-2.0

/*
Package contention finds fights over fields: two clients each set a field to a value of their own, again and again.

A flip is a field that has another value although the caller has written its value before. The caller records each flip before
it writes the value again. A few flips are usual, after an edit by hand for instance. If a field flips more than Flips times
within Window, the object is contended, and the caller pauses before each further write. The pauses begin with FirstPause and
double up to LongestPause, so a fight costs at most one write per second at first, and later one per minute. The fight ends when
no flip has been recorded for Window after a pause; then flips are counted from zero.

Flips count per field, so that independent edits of several fields are no fight. A pause applies to the whole object, because a
write does. To a client that flips a different field each time, only a bounded number of fields of an object has counts of its
own; all others share one.

Memory is bounded as well. A Detector keeps the most recent keys; a key that it drops begins like a new one.

Pauses have no jitter; the caller adds it. The package is pure: it has no clock, no client and no goroutine of its own.
*/
package contention
