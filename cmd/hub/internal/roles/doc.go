// SPDX-License-Identifier: Apache-2.0

/*
Package roles has the permissions of a hub in its own cluster, in the namespaces of its apps, and in every remote.

	hub := roles.Hub{Namespace: "clusterfx-system"}
	objects := hub.Roles(modules)      // for kubectl apply, as the command rbac prints them
	rules := roles.OfHub(modules)      // for the manifests of package install
	err := hub.Grant(ctx, admin, modules, account)  // for tests and for the command dev

They join what the sending packages declare (cluster, renewal, partreport, replica) and what modules declare. A
permission in one namespace stays there. Since the package knows no command and no flag, rbac, install, dev and tests
share it, and a test compares it with the requests that a hub sends.
*/
package roles
