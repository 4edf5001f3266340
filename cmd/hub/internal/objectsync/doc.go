// SPDX-License-Identifier: Apache-2.0

/*
Package objectsync shows and repairs what the rules of the module sync keep in step: it counts originals and copies,
shows what would be written, translates names, deletes copies of removed rules, and releases originals whose remote is
away.

	fleet := objectsync.Fleet{Hub: hub, Namespace: namespace, Config: config}
	counts, err := fleet.Count(ctx, objectsync.Scope{})

A hub need not run: rules come from its configuration, and remotes are reached with the Cluster's Secret or as an
administrator. Only Diff reads whole objects, and returns no values; it sends dry runs, so that defaults, webhooks and
fields of others count.

Prune knows only a rule's name, so it searches all kinds for the rule's label. A copy's marks must also name the
object itself, because others copy objects with their labels. It deletes only what has not changed since. Release
touches only objects that are being deleted: the hub would add the finalizer again to others.
*/
package objectsync
