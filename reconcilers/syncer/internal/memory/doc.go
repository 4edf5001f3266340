// SPDX-License-Identifier: Apache-2.0

/*
Package memory is what a controller knows of its copies beyond the objects: their names, what was written last, who deletes a
copy, and which originals wait for a name. It saves requests, and tells the deletions and edits of others from our own. It is
lost with the process, and nothing depends on it: the marks of the copies are the record. No method blocks.
*/
package memory
