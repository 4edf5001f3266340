// SPDX-License-Identifier: Apache-2.0

package registry

// EventKind is the kind of a change of a remote.
type EventKind string

// Kinds of events.
const (
	// EventReady means that a new epoch lends out its client.
	EventReady EventKind = "Ready"
	// EventLost means that the epoch that was ready no longer is.
	EventLost EventKind = "Lost"
	// EventStopped means that the registry has forgotten the remote.
	EventStopped EventKind = "Stopped"
	// EventChanged means that the remote's Status changed in any other way.
	EventChanged EventKind = "Changed"
)

// Event tells a subscriber that a remote changed. Events are coalesced: for each remote the
// latest one wins, so that a slow subscriber costs a map entry per remote and nothing else.
type Event struct {
	Name  ClusterName
	Kind  EventKind
	Epoch int64
}
