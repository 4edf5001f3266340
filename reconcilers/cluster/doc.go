// SPDX-License-Identifier: Apache-2.0

/*
Package cluster translates between Cluster objects and the registry: what an object says is what
runs, and what runs is what the object's status says.

Its controller keeps the registry and the status of every Cluster as the Cluster, its Secret and the
remote are now. Package registration makes Clusters of labelled Secrets, for users who register a
remote with a Secret alone. Package observe, which Module adds to the registry, turns the writes of
observed remotes into dry runs.

# Usage

In a hub's fx App, next to registry.FX:

	fx.Supply(cluster.Settings{Policy: policy, HubID: id}),
	cluster.Module,

Without fx, make a Journal, give it to the registry, fill in Params and call Setup. The manager's
cache must hold Secrets of the credentials namespace only, and only what is needed of them:

	ctrl.Options{Cache: cache.Options{ByObject: cluster.CacheOptions(hubv1.DefaultNamespace)}}

The permissions that this controller and package registration need are those of Rules everywhere, and
of CredentialsRules and EventRules in their namespaces. "hub rbac" prints them for the whole hub.

# What happens to a Cluster

	new ─> finalizer ─> Secret ─> registry.Ensure ─> recorded identity ─> status
	                      │                            ^
	                      └ missing or bad ────────────┘ what runs goes on with what it has
	deleted ─> registry.Remove ─> finalizer removed

Every step looks at what is, never at what happened or at what was written into status before, so
that a hub that was restarted in the middle of anything goes on from there. Nothing waits: a
reconcile posts the desired state to the registry, reads a snapshot and returns; the registry's
events, the Secret's and the object's bring it back. A bad Secret is not retried, since it is
watched.

A Secret that changes again and again is read when it first changes, and then once in two seconds, so
that the last change wins after a bounded number of readings. When a remote rejects its credentials,
the Secret is read once, at once, since newer ones may be there that no watch has told of yet.

A hub that starts looks at those Clusters first whose identity is recorded, and then at new ones.

An app that has failed five times in a row, or is quarantined, makes its Cluster Stalled, though both
are tried again now and then.

Status is written with server-side apply by the field manager FieldManager, in one request per
reconcile, and only if something in it changed. status.inventory and conditions of other types
belong to others and are not touched. A request carries the resourceVersion that was compared
with, so that a cache that is behind makes no second write and no second event of one change; the
conflict is no error, the reconcile starts over.

A CRD that is older than the hub, and lacks fields of the status, gets the others (package oldcrd).

# What happens to a Cluster that is deleted

Its remote is removed in a goroutine of its own (removals), which gets Settings.RemoveWithin for the
modules' cleanup steps and the end of the app, so that no worker waits for a remote. The finalizer
goes when the app is fenced and everything is done, or the time is over; then an event, Abandoned,
says what was given up. That needs neither the Secret nor the remote. A hub that was restarted in the
middle starts the app once more, to have its cleanup steps run, if the credentials are still there.

What is left of a Cluster is removed before a new one of the same name is looked at. That is not as
rare as it seems: an API server may delete a Cluster in the very moment in which the hub adds the
finalizer, and says to both that they succeeded.

# What happens to a Cluster that crashes the hub

What a module does to the whole process cannot be contained. So the Journal keeps on record, in one
ConfigMap, which apps are being started, and a hub that starts suspects those that are on record
still: the registry starts them last and alone. After three crashes in a row an app is quarantined,
for ten minutes and twice as long after each further crash, up to a day: ModulesReady is False with
the reason Quarantined, and the Cluster Stalled. A changed spec or a new value of the annotation
clusterfx.dev/retry ends that at once, as does a changed Secret, but that one after the third crash
only: whoever may write Secrets shall not be able to crash the hub again and again. A suspect that
has been Ready for five seconds is none any more.

# Why it is built this way

Secrets are watched by metadata and read live, one at a time, when the metadata show a version that
was not read before. A cache of whole Secrets would hold whatever else is in the namespace, too;
kubectl even copies a Secret into an annotation of it, which is why CacheOptions drops annotations
that are not ours.

The Journal is one object that is written whole, not a field of each Cluster: the starts of two
hundred remotes that a hub begins with are a handful of writes of it, and it is read before any of
them. It holds digests of what was being started, not the things. It is no guard: while the hub's API
server is away, apps start without it.

A condition is a copy of one of the registry's conditions wherever possible. This package decides on
CredentialsValid alone, because Secrets are what the registry does not know; that the remote refuses new
credentials (NotInUse) is the registry's. The fingerprint in the status, and the event CredentialsRotated, are about
the credentials in use.

A missing Secret or key makes a Cluster Reconciling, not Stalled, unlike any other bad Secret: a
Secret that is created together with its Cluster often comes, or is filled, a moment later, and
tools that wait give up on Stalled at once.

A state that leads to another one within a second, such as those of a start, is not reported. When
a hub with thousands of remotes starts, that is the difference between no write per remote and
several, all at once.

A snapshot of the registry may be older than the Ensure that came before it. So every Ensure
carries a revision, and a snapshot that does not show it is not reported: the event that brings
the newer one is on its way. Otherwise a Cluster whose server was changed would be Ready, for a
moment, with the generation that it is not ready for.
*/
package cluster
