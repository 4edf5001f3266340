// SPDX-License-Identifier: Apache-2.0

/*
Package objectsync is the module sync: it copies objects between the hub and its remotes by rules of the operator's
configuration, without code of a module author. docs/syncing.md is for the operator.

Each rule becomes a pair of package reconcilers/syncer in the app of each remote that runs the module: a remote that is away
delays no other one, and the pairs of all apps share the informers of the hub. Package rules has the configuration and
everything that follows from it without a request.

# Parts

	remote part   a pair for each rule, the cleanup steps, and the limit of what a remote may bring into the hub
	hub part      it releases objects of the hub that are being deleted when the only cluster with their copy is gone

The hub part is needed only for rules from the hub that are one-to-one: their originals have a finalizer, which the pair of one
remote removes. When the Cluster of that remote no longer exists, does not run the module, has no such rule, or was not reachable
for abandonAfter, the hub part removes the finalizer, with the event CopyLeftBehind. It watches the kinds of the rules that the
configuration has: hub sync prune removes the finalizers of a kind that no rule has any longer.

# Permissions

They follow from the rules; see rules.Permissions.
*/
package objectsync
