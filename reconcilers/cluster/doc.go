// SPDX-License-Identifier: Apache-2.0

/*
Package cluster translates between Cluster objects and the registry: it posts the desired state that a Cluster and its Secret describe,
and reports the state of the remote in the status of the Cluster.

In a hub's fx App, next to registry.FX:

	fx.Supply(cluster.Settings{Policy: policy, HubID: id}),
	cluster.Module,

Without fx, fill in Params and call Setup. The manager must be made with ManagerOptions: its cache has the metadata of Secrets only.
Rules, CredentialsRules and EventRules are the permissions.

# A Cluster

	new ─> Secret ─> registry.Ensure ─> contact ─> finalizer and identity ─> registry.Ensure ─> app ─> status

Every step depends on the current state only, so that a hub that restarts continues. No reconcile waits: events trigger the next
one. What the process knows beside the cache is in one memory:

  - the Cluster as the last write left it (seen.latest), since the cache may be seconds behind,
  - the last reading of the Secret, which is read again when it changes, or when the remote rejects it,
  - what was posted to the registry, which is not posted again,
  - the removal of the remote, and
  - the timing of reports: timing.go has each bound with its reason.

A snapshot of the registry with another revision than the last Ensure is not reported: an event follows. The first Ensure of a new
Cluster only identifies the remote, so that finalizer and identity are one write. Of two Clusters that are one cluster the registry
refuses the younger; rivals does so among hubs that share a fleet.

The status is a merge patch between the Cluster that was read and the one wished, with its resourceVersion, and only if they differ. A
conflict is no error: the reconcile starts again. status.inventory and conditions of other types belong to other writers. The API
server drops fields that its CRD lacks; MissingFields names them, and the hub logs them once.

# Deletion

The remote is removed in a goroutine, which has Settings.RemoveWithin for the cleanup steps, and then the finalizer; the event
Abandoned names steps that were given up. The app of a Cluster that vanished without a deletion stops, and its objects stay.

# Crashes

A module that ends the process is convicted by evidence only: a process that panics writes whose goroutine it was, and the
Journal knows which apps were starting, in any replica; after three ends these start one at a time. A conviction is the annotation AnnotationCrashes. It
quarantines the app until the spec or AnnotationRetry changes, or for a time that doubles. A changed Secret does not end it, or
whoever can write Secrets could crash the hub.
*/
package cluster
