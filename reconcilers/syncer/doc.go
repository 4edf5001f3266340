// SPDX-License-Identifier: Apache-2.0

/*
Package syncer keeps objects in step between two clusters: the spec goes one way, and the status comes back the other way.

A Pair has an upstream cluster, with the originals, and a downstream cluster, with the copies. (vcluster, from which this
contract comes, calls them virtual and host.) A Syncer is the code for one kind of objects in a pair; Copy is the one that
most kinds need.

	pair, err := syncer.NewPair(syncer.PairOptions{
		Name: "configs", Manager: p.Manager,
		Upstream:   syncer.OfHub(p, selection),
		Downstream: syncer.OfRemote(p),
		Identity:   syncer.Identity{Tenant: "hub", TargetNamespace: "platform"},
	})
	translator := syncer.NewNamespaced[*corev1.ConfigMap](pair.Identity(), syncer.TranslatorOptions{})
	err = syncer.Register(pair, &syncer.Copy[*corev1.ConfigMap]{Called: "configmaps"}, translator,
		syncer.Options[*corev1.ConfigMap]{})

In an App, Module makes the pair and AsSyncer contributes Items to it, from any module of the App. modules/objectsync does all
of this from a configuration, without Go.

# Sides

A side is the remote of an app (OfRemote), the hub as an app reaches it (OfHub), a remote of a registry in a hub part
(Leased), or any cluster with a cache in the process (InProcess). Any two of them make a pair. The usual pairs have the hub and
the remote of an app, in either direction: then a remote that does not respond delays no other remote, because its pair ends
with its app. All apps share one informer of the hub's objects. Two Leased sides copy between two remotes; while one of them
is not Ready, the reconciles of the pair wait.

An Identity makes the copies of a pair recognizable: the tenant, the target namespace, the prefix of the marks. Each pair has
its own, and nothing of it belongs to the process, so that one process has any number of pairs. Pairs that copy into the same
cluster need different identities.

# The life of a reconcile

The requests of a controller are names of upstream objects. An event of a downstream object requests its original. Each
reconcile reads both objects, and decide (decide.go) chooses the next step from these facts; no other code chooses whether an
object may be written.

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

An upstream object that Options.Select refuses, or with the label <prefix>/controlled-by, is treated as absent.

# Whose object it is

A copy has marks, which are labels and annotations: the tenant, the name, namespace, kind and UID of the original, and its own
name. Foreign objects lack the marks of the pair, or have marks that contradict each other. Copied objects have the marks of
another object, as after kubectl get -o yaml and apply. Neither is ever written, unless an Importer adopts it: each write has the UID and the
resourceVersion of the object whose marks were checked, and a create never changes an object that exists. So one process that
loses a race changes nothing, and gets a conflict, which is repeated without an error in the log.

The upstream object gets an event with the reason NameConflict, which names the object in the way. It is tried again when that
object changes, and from time to time.

# Names

Translators map names downstream and back. NewNamespaced puts all namespaces into one, NewCluster is for objects without a
namespace, and NewMirror keeps names. No name is taken apart to find the original: the marks have it, and they count only if
the original may have that very name. An object whose first name belongs to the copy of another object gets its second name,
which has a hash of 88 bits, and keeps that name as long as the copy exists. See package translate.

# Deletion

With PairOptions.OneToOne, an upstream object gets the finalizer FinalizerOf before its copy is made. When it is deleted, the
copy is deleted first, and the finalizer is removed when a live read finds no copy. Objects with many copies, one in each
remote, have no finalizer: each pair deletes its copy when a live read of the upstream API server finds no original. Errors are
not absence. The delete is declared (see registry/deletes) if the original is being deleted, or if a watch has reported its
deletion and the API server confirms it; all other deletes count towards the limits of the module, so an upstream cluster that
has lost its data costs a bounded number of copies, and nothing is left to do when the data are back.

When another client deletes a copy, the pair recreates it (Recreate) or deletes its original (Propagate). Only a deletion that
starts while the process runs is propagated, and it counts towards the limits: a namespace or a definition that is deleted
downstream takes all copies with it.

# Writes

Session.Apply uses server-side apply, with one field manager for each tenant and direction, so the fields of others survive,
and fields that are no longer applied are removed. It sends no request for a copy that is as desired: it compares the values,
and a hash of the paths of all applied fields that an annotation of the copy has. The hash contains no values, since one of a
Secret's content would tell something about it. Session.Create, Update and Patch are for authors who do not apply;
TranslateUpdate merges labels and annotations for them.

A field that another client sets again and again is Contended: after more than five repetitions in a minute the pair writes
the object once a second, and less often the longer it lasts, down to once a minute. A webhook that changes each write costs
no second write. A copy that the API server rejects is tried again after a pause that doubles, up to five minutes. All of
these are events of the upstream object. They name fields, and repeat neither values nor texts of an API server, unless
PairOptions.Quote makes the texts fit.

# Extensions

A value of a pair implements any of these: Syncer, UpSyncer (upstream objects for downstream objects of somebody else),
Importer, FakeSyncer (objects upstream only), Starter, Initializer, IndexRegisterer, ControllerModifier and ControllerStarter.
Start calls Init of all Items, then RegisterIndices of all, and then adds the controllers, in the order of the Items. A
ControllerModifier and a ControllerStarter may read from caches, so they are called when the caches run. ClientHooks mutate
objects that are read or written. EnsureCRD brings the CustomResourceDefinition of a kind downstream, and never upstream.

# Permissions

Upstream, a pair needs get, list and watch for the kind, create for events of events.k8s.io, patch for the status if it is
written, patch for the kind with OneToOne, delete with Propagate, and create, update and delete for an UpSyncer. Downstream it
needs get, list, watch, create, patch and delete for the kind, and update for authors who call Session.Update. For kinds of the
hub with a CustomResourceDefinition it needs get for the definitions, which are evidence for deletes.

# Locking

The queue lets one worker at a time reconcile an object, and Options.Concurrency objects at once. The locks protect maps, and
are held for a few instructions.

# Why it is built this way

vcluster's package wrote whole objects, had one identity for the process, took names apart, deleted what a cache did not
have, and overwrote objects of others; its defects are tests in the files flaws*_test.go, each named after its number. Its
records of names were a store of its own; here the copies are the record, so that a restart, a restored backup and a second
process see the same.

Ownership is decided from the object that is read, and enforced by the API server with preconditions, instead of a lock: a
lock cannot keep other clients away. A create is an apply with a resourceVersion that no object has: the API server creates
the object, or refuses to change one that exists. A POST request would do as well, but fields that it sets belong to another
field manager operation, and later applies could not remove them.
*/
package syncer
