// SPDX-License-Identifier: Apache-2.0

/*
Package memory is what a controller knows of its copies beyond the objects: their names, what was written last, who deletes a
copy, and which originals wait for a name. It saves requests, and tells the deletions and edits of others from our own. It is
lost with the process, and nothing depends on it: the marks of the copies are the record. No method blocks.

Flip finds fights over fields: two clients each set a field to a value of their own, repeatedly. A flip is a field that
has another value although the caller has written its value before. More than Flips within Window are a fight: the caller must pause
before each further write, first for FirstPause, then twice as long up to LongestPause, until no flip was recorded for Window after a
pause. Flips count per field, so that edits of several fields are no fight; pauses are per object, because writes are. The caller
adds jitter.
*/
package memory
