// SPDX-License-Identifier: Apache-2.0

/*
Package roles has the permissions of a hub: in its own cluster, in the namespaces of its apps, and in every remote.

# Usage

	hub := roles.Hub{Namespace: "clusterfx-system", Lease: roles.Lease}
	objects := hub.Roles(modules)      // for kubectl apply, as the command rbac prints them
	rules := roles.OfHub(modules, roles.Lease)    // for the manifests of package install
	err := hub.Grant(ctx, admin, modules, account)  // for tests and for the command dev

# How it works

The permissions are the union of the hub's own, which the packages that send the requests declare (cluster,
renewal, partreport, replica), and the permissions that the modules declare. Rules that differ in their verbs only are merged into one.

A permission in one namespace stays in that namespace: the Secrets and the Lease of the hub are in roles of the
credentials namespace, events of cluster-scoped objects in a role of the namespace default.

# Considerations

The package knows of no command and no flag. So rbac, install, dev and the tests of module authors share one
definition, and a test compares the permissions with the requests that a hub sends.
*/
package roles
