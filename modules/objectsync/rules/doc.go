// SPDX-License-Identifier: Apache-2.0

/*
Package rules has the configuration of the module objectsync, and everything that follows from a rule without a request: the
marks and names of its copies, the objects that it selects, the patches, and the permissions that it needs.

	c := rules.Defaults()           // decoded by the hub, which calls Validate
	for _, r := range c.Complete() { // with the defaults of each rule
		id := r.Identity(rules.Place{HubID: id, Cluster: "cluster-a"})
		translator := r.Translator(rules.Place{HubID: id, Cluster: "cluster-a"})
		...
	}

# The sides of a rule

The source has the originals, and the target has the copies. With from: Hub the hub is the source, and each remote that runs the
module a target; with from: Remote each of these remotes is a source, and the hub the target.

A rule is one-to-one if each original has exactly one copy: each rule from remotes, and a rule from the hub whose originals are
in a namespace for each cluster. Only such a rule brings the status back, and only its originals have a finalizer.

# What is refused

A hub acts with its own permissions for everybody who may write to a source. So Validate refuses the namespace of the credentials,
the group clusterfx.dev, and, from remotes, kinds that grant permissions or change the API of the target, the namespaces of
Kubernetes, and adoption. It does not refuse workloads: a rule that brings Pods or Deployments lets the writers of a remote run
them in the namespace that the operator has chosen. IsReserved names the keys of labels and annotations that
are never copied, since controllers of the target trust them.
*/
package rules
