// SPDX-License-Identifier: Apache-2.0

/*
Package memory is the knowledge of a controller about its copies that is not in an object: which name a copy has, what was written
last, who deletes a copy, and which originals wait for a name.

	m := memory.New()
	m.Exists(up, down) // an event of the downstream cluster
	m.Wrote(up, func(w *memory.Write) { w.Desired = m.Digest(fields) })

The events of the downstream cluster and the writes of the controller fill it. It is lost with the process, and nothing depends on
it: the marks of the copies are the record, and the memory saves reads and writes, and tells the deletions and edits of others from
those of the controller. Its one lock protects maps, and no method blocks.

A Detector finds fights over fields: two clients that each set a field to their own value, again and again. The caller records each
flip, a field that has another value although the caller has written its value before. A field that flips more than Flips times
within Window makes the object contended: the caller pauses before each further write, from FirstPause doubling up to LongestPause,
until no flip has been recorded for Window after a pause. Flips count per field, so that independent edits are no fight; a pause
applies to the object, because a write does. A bounded number of fields of an object, and of keys, has counts of its own. A Detector
has no clock, and the caller adds the jitter.
*/
package memory
