// SPDX-License-Identifier: Apache-2.0

/*
Package eventseries makes one series of the Kubernetes events with the same note, and another event of each other
note. The recorders of package registry, of a module's Manager and of the hub's controllers are such recorders
already.

client-go makes a series of events about the same version of an object and keeps the first note: a change of the
object would begin another event though its note is the same, and a note that changes would never be seen. So a
Recorder puts a digest of the note in the place of the version, in regarding.resourceVersion. After ten notes of one
kind, reason and action about one object within ten minutes, all further ones are one series, so that a note with a
counter does not fill the API server.
*/
package eventseries
