// SPDX-License-Identifier: Apache-2.0

/*
Package syncer keeps objects in step between two clusters: the spec goes one way, and the status comes back.

A Pair has an upstream cluster with the originals and a downstream one with the copies (vcluster: virtual and host).
A Syncer is the code for one kind; Copy is the one that most kinds need. A side is any cluster with a cache (InProcess,
OfRemote), or the hub (OfHub). The usual pair has the hub and the remote of an app: it ends with
the app, so a remote that does not respond delays no other. An Identity marks the copies of a pair; pairs into one cluster
must have different ones.

Each reconcile reads both objects, and decide (decide.go) alone chooses the step:

	upstream       downstream                 step
	present        absent                     SyncDown
	present        Ours                       Sync
	present        Stale (other UID)          the copy is marked again if its content is right, else deleted and made again
	present        Foreign or Copied          NameConflict, unless an Importer adopts the object
	present        being deleted              wait; with Propagate the original is deleted, too
	terminating    Ours or Stale              the copy is deleted
	terminating    absent, Foreign            the finalizer is removed
	absent         Ours                       the copy is deleted
	absent         Foreign                    SyncUp, if the syncer has it; otherwise nothing

Absent includes what Options.Select refuses and what has the label <prefix>/controlled-by. With Options.Moves, copies of the same tenant
at an address that the translator no longer gives are deleted, when the copy at the right one exists, or none is needed.

# Whose object it is

A copy has marks: labels and annotations with the tenant, its own name, and name, namespace, kind and UID of the original.
Foreign objects lack them or contradict themselves; Copied ones have those of another object. Neither is ever written
unless it is adopted: each write has the UID and resourceVersion whose marks were checked, and a create never changes an
object that exists. The marks, and never a name, are the record, so that a restart, a
restored backup and a second process see the same.

# Deletion

With OneToOne an original has a finalizer until a live read finds no copy. Otherwise a copy is deleted when a live read
finds no original; an error is not absence. A delete is declared (registry/deletes) if the original is being deleted, or a
watch has reported its deletion and the API server confirms it. All others count towards the module's limits, by PairOptions.Cause, so an
upstream that has lost its data costs a bounded number of copies. So do propagated ones. A copy whose original exists, but is not selected
or has moved, is given up: PairOptions.GiveUp may put it off.

# Writes

Session.Apply uses server-side apply with a field manager for each tenant and direction, and sends nothing if values and
the hash of the applied paths are right. A field that others set more than five times in a minute is Contended, and written
ever more rarely; a rejected copy is retried with a pause. Events report both, without values.

# Permissions

Upstream: get, list, watch; create for events of events.k8s.io; patch for a written status, and for the kind with OneToOne;
delete with Propagate; create, update and delete for an UpSyncer. Downstream: get, list, watch, create, patch, delete, and
update for Session.Update. For custom kinds of the hub also get for their definitions, which are evidence for deletes.
*/
package syncer
