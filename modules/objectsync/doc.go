// SPDX-License-Identifier: Apache-2.0

/*
Package objectsync is the module sync: it copies objects between the hub and its remotes by rules in the operator's configuration
(docs/syncing.md, package rules).

	remote part   a pair of reconcilers/syncer for each rule, the cleanup steps, and the limit of what a remote may bring
	hub part      it releases deleted objects of the hub when the only cluster with their copy is gone

Pairs are in the remotes' apps, so a remote that is away delays no other. The hub part is for one-to-one rules from the hub, whose
originals have a finalizer that the pair of one remote removes. If that Cluster is gone, does not run the module, lacks the
rule, or was away for abandonAfter, the hub part removes it, with the event CopyLeftBehind. Finalizers of a kind without rules are
for hub sync prune.
*/
package objectsync
