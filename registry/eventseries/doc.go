// SPDX-License-Identifier: Apache-2.0

// Package eventseries makes one series of the Kubernetes events with the same note, and another event of each other
// note. Remote.EventRecorder and HubPart.EventRecorder of package registry and the recorders of a module's Manager are
// such recorders already, and so are the recorders of the hub's controllers, which is why the package is not part of
// the registry.
//
// client-go makes a series of events about the same version of an object, whatever their notes are, and the series
// keeps the note of the first event. So a change of the object would begin another event though its note is the same,
// and a note that changes would never be seen. The events of a Recorder name no version of the object: in
// its place, in regarding.resourceVersion, is a digest of the note.
//
// After ten notes of one kind, reason and action about one object within ten minutes all further ones are one
// series, so that a note with a counter in it does not fill the API server.
package eventseries
