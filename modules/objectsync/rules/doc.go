// SPDX-License-Identifier: Apache-2.0

/*
Package rules has the configuration of the module objectsync, and what follows from a SyncRule without a request: marks, names,
selection, patches, permissions, and whether the configuration allows it.

The source of a rule has the originals, the target the copies: from: Hub makes the hub the source and each remote a target, from:
Remote each remote a source and the hub the target. A rule is one-to-one if each original has one copy: from remotes, and from
the hub with a namespace for each cluster. Only such a rule brings the status back and has finalizers on its originals.

A hub acts with its own permissions for whoever may write to a source. So Compile refuses the credentials namespace and the group
clusterfx.dev, and from remotes kinds that grant permissions or change the target's API, the namespaces of Kubernetes, and
adoption. It does not refuse workloads: such a rule lets a remote's writers run them in the namespace that the rule names.
IsReserved names labels and annotations that controllers of the target trust.
*/
package rules
