// SPDX-License-Identifier: Apache-2.0

/*
Package objectsync is the module sync: it copies objects between the hub and its remotes by SyncRules (docs/syncing.md, package rules).

	remote part   the engine: it follows the rules that select the Cluster, with one controller for each kind and direction; the
	              cleanup steps, and the limit of what a remote may bring
	hub part      of each replica: what its apps say of the rules gets into their status
	RulesModule   in one replica: conditions, the end of rules, and originals of the hub whose only copy is in a remote that has gone

Apps follow rules on their own, so a remote that is away delays no other. RulesModule is also for one-to-one rules from the hub, whose
originals have a finalizer that the app of one remote removes. If that Cluster is gone, or does not run the module, RulesModule removes
it, with the event CopyLeftBehind.
*/
package objectsync
