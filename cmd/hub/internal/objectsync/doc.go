// SPDX-License-Identifier: Apache-2.0

/*
Package objectsync shows and repairs what the rules of the module sync keep in step: it counts originals and copies, shows what
would be written, translates names, deletes the copies of removed rules, and releases originals whose remote is away.

	fleet := objectsync.Fleet{Hub: hub, Namespace: namespace, Config: config}
	counts, err := fleet.Count(ctx, objectsync.Scope{})

# How it works

A hub need not run. The package reads the rules from the configuration of the hub, and reaches a remote with the credentials in
the Secret of its Cluster, or with those of an administrator. Diff reads whole objects, and returns no values of them; all else
reads only the metadata of objects, so that it has no contents of Secrets.

Diff asks the target what it would make of each copy, with a dry run of the write that the hub sends: so defaults, webhooks and
fields of others count, and an object that the target would reject is found.

# Considerations

Prune knows only the name of a rule, since a removed rule is in no configuration. So it searches all kinds of the target that
can be listed and deleted, for objects with the label of the rule. The label alone does not make an object a copy: its marks also
have to name the object itself, because others copy objects together with their labels and annotations. Prune reads an object
again before it deletes it, and deletes it only if it has not changed since.

Release removes a finalizer only from an object that is being deleted: the hub would add it again to any other object.
*/
package objectsync
