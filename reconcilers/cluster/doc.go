// SPDX-License-Identifier: Apache-2.0

/*
Package cluster translates between Cluster objects and the registry: it posts the desired state that a
Cluster describes, and reports the state of the remote in the status of the Cluster.

Its controller keeps the registry and the status of every Cluster as the Cluster, its Secret and the
remote are now. Package registration makes Clusters of labelled Secrets, for users who register a
remote with a Secret alone. Package observe, which Module adds to the registry, turns the writes of
observed remotes into dry runs.

# Usage

In a hub's fx App, next to registry.FX:

	fx.Supply(cluster.Settings{Policy: policy, HubID: id}),
	cluster.Module,

Without fx, make a Journal, give it to the registry, fill in Params and call Setup. The manager is
made with the options of ManagerOptions, so that its cache holds Secrets of the credentials namespace
only, and only the metadata that this package needs:

	ctrl.NewManager(config, cluster.ManagerOptions(hubv1.DefaultNamespace))

The permissions that this controller and package registration need are those of Rules everywhere, and
of CredentialsRules and EventRules in their namespaces. "hub rbac" prints them for the whole hub.

# What happens to a Cluster

	new ─> Secret ─> registry.Ensure ─> contact ─> finalizer and identity ─> registry.Ensure ─> app ─> status
	         │                                                                                   ^
	         └ missing or bad ───────────────────────────────────────────────────────────────────┘ the running app
	deleted ─> registry.Remove ─> finalizer removed                                                keeps its credentials

The first call of Ensure for a new Cluster has the remote identified only, so that its finalizer and its identity are one
write, and no app runs before it: each write to a Cluster takes the hub's API server several milliseconds. A Cluster that
is deleted before that is gone at once.

Every step depends on the current state only, never on past events or on the previous status, so that
a hub that restarts in the middle of a step continues there. No reconcile waits: it posts the desired
state to the registry, reads a snapshot and returns; events of the registry, the Secret and the Cluster
trigger the next reconcile. A bad Secret is not retried, since it is watched.

A Secret that changes continuously is read at its first change and then every two seconds, so that the
last change takes effect after a bounded number of reads. When a remote rejects its credentials, the
Secret is read again immediately, since the watch may not have delivered newer credentials yet.

A hub that starts reconciles the Clusters with a recorded identity first, and new Clusters after them.

The registry refuses the younger one of two Clusters that are one cluster. In a hub that shares its Clusters with others, the
recorded identities show Clusters that another hub runs (rivals): the younger one is a duplicate as soon as its hub has the
record of the older one from the watch, and an app starts only when it has the record of its own Cluster. A remote that does
not say which cluster it is has no rivals. A hub that allows duplicates does not look for rivals.

An app that has failed five times in a row, or is quarantined, makes its Cluster Stalled, although the
hub retries both from time to time.

Status is written with server-side apply by the field manager FieldManager, in one request per
reconcile, and only if the status changed. status.inventory and conditions of other types belong to
other writers and are not touched. A request carries the resourceVersion of the Cluster that was
compared, so that a stale cache causes neither a second write nor a second event for one change; a
conflict is not an error, the reconcile starts again.

If the CRD is older than the hub and lacks fields of the status, the other fields are written (package
oldcrd).

# What happens to a Cluster that is deleted

Its remote is removed in a goroutine of its own (removals), which gets Settings.RemoveWithin for the
modules' cleanup steps and the end of the app, so that no worker waits for a remote. The finalizer is
removed when the app is fenced and all steps are done, or when the time has passed; then an event,
Abandoned, names the steps that were given up. That needs neither the Secret nor the remote. A hub that
restarts during a removal starts the app again to run its cleanup steps, if the credentials still exist.
So does a hub whose gate refused writes of the steps: it may not write at that moment, because its API
server has not responded or because it hands the Cluster over, and that is no reason to give up a step.

The remote of a deleted Cluster is removed before a new Cluster of the same name is reconciled. That is
not as rare as it seems: an API server may delete a Cluster while the hub adds the finalizer, and
answer both requests with success.

# What happens to a Cluster that crashes the hub

A module that ends the whole process cannot be contained. It is convicted by evidence only. A process that panics writes on its way
down whose goroutine it was: the labels of goroutines name the Cluster and the module. The next process of the hub reads that, and
calls Convict. A process that is killed writes nothing, and makes no app guilty. The Journal records which apps were being started
then: after three such ends in a row these apps start one at a time, and an app that ends the process then is convicted, if another
app had started in it. Without that, the hub is the suspect.

A conviction is an annotation of the Cluster, AnnotationCrashes, so all replicas know it, and their crashes add up. ModulesReady is
False with the reason Quarantined, and the Cluster Stalled, for a minute, and twice as long after each further crash, up to a day. A
changed spec or a new value of the annotation clusterfx.dev/retry ends that immediately; a changed Secret does not, since a user who
can write Secrets must not be able to crash the hub repeatedly. An app that has been Ready for five seconds is no suspect, and the
crashes of one that has been Ready for ten minutes, or for as long as its last quarantine, are forgotten.

# Why it is built this way

Secrets are watched by metadata and read from the API server, one at a time, when the metadata show a
version that was not read before. Only a hub that starts reads them in pages of 100, which saves a
request for each Cluster; it keeps what a single read would keep. A cache of whole Secrets would also hold the other Secrets of the namespace;
kubectl even copies a Secret into one of its annotations, which is why ManagerOptions drops the
annotations of other owners.

The Journal is one object that is written whole, not a field of each Cluster: the two hundred starts
at the beginning of a hub are a handful of writes, and the Journal is read before all of them. It is not a gate: while the hub's API
server is unavailable, apps start without it.

Conditions are copies of the registry's conditions wherever possible (package clusterstatus). This
package decides about CredentialsValid only, because the registry knows no Secrets; whether the remote
refuses new credentials (NotInUse) is the registry's decision. The fingerprint in the status, and the
event CredentialsRotated, describe the credentials in use.

A missing Secret or key makes a Cluster Reconciling, not Stalled, unlike any other bad Secret: a
Secret that is created together with its Cluster often appears, or is filled, a moment later, and
tools that wait give up on Stalled immediately.

A state that changes again within a second, such as the states of a start, is not reported. When a hub
with thousands of remotes starts, that is the difference between no write per remote and several, all
at the same time.

For the same reason, when the hub starts, a Cluster that was Ready keeps its status until its remote
has had its first turn in this process (firstTurns), for 30 s at most: every restart would look like
the loss of the fleet otherwise. A remote that is down is reported after its turn. A Cluster that another
runner reported last keeps its status for 10 s, from the moment when this hub has it: the end of that
runner must not stay hidden.

The cache may be seconds behind the writes of this package, on a busy API server. A reconcile uses the
Cluster as the last write has left it (written) until the cache has it. It would repeat that write
otherwise, and each step of a new Cluster would wait for the watch.

A snapshot of the registry may be older than the preceding Ensure. So every Ensure carries a revision,
and a snapshot with another revision is not reported: the event of the newer snapshot follows.
Otherwise a Cluster whose server was changed would be Ready, for a moment, with a generation that is
not in effect.
*/
package cluster
