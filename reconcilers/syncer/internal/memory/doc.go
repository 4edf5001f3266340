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
*/
package memory
