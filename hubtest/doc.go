// SPDX-License-Identifier: Apache-2.0

/*
Package hubtest is the test kit for authors of modules: a hub with the modules under test, and remotes, on real API servers,
with faults on demand.

	func TestPodcount(t *testing.T) {
		hub := hubtest.New(t, hubtest.Remotes("a", "b"), hubtest.Modules(podcount.Module))
		...
	}

Tests need kube-apiserver and etcd: "make controlplane" builds them here, elsewhere the first test names the command. Main in a
TestMain also finds goroutines that the tests leak. New returns when every remote is Ready. The test is the administrator of the
hub (Hub) and each remote (Hub.Remote), behind no fault:

	Client, Create, Delete     on the API server itself
	WaitFor, WaitGone          for an object in the API server
	WaitCached                 until the cache of the hub, or of a remote's app, contains a write
	WaitReady, WaitNotReady,   for the Cluster of a remote
	WaitCondition, WaitModule,
	WaitModuleGone
	WaitHubPart                for the hub part of a module
	WaitHeld, AllowDeletes     for deletes of a module that the hub holds; Client and Delete have no limits
	Eventually                 for anything else
	Registry                   for access to remotes as hub reconcilers have it

A wait that exceeds Patience ends the test with the last state, and the last error of the hub. To test that something does not
happen, trigger a later event and wait for it. Module kinds come with HubCRDs, RemoteCRDs, and Hub: fx.Invoke(widgetv1.AddToScheme).
A clock in app.Options.Registry.Now, set with HubOptions, shortens the ten minutes for which deletes and holds count.

# Faults

A TCP proxy (e2e/fault) is between the hub and each API server, processes are killed, credentials are real:

	Blackhole, Refuse, Slow    the network, of the hub's API server, too; Repair ends a fault, Break sets any other
	Kill, Restart              the remote's API server (Hub.Restart restarts the hub)
	RotateToken                the hub gets a new token, and the old one is revoked
	RevokeToken                the hub's token is revoked
	ExpireCertificate          the hub gets a client certificate, and it expires

Probes run each second here: a remote that refuses connections is lost after 3 s, a silent one after 6 s, and Ready again 1 s after
the fault, but later if it was lost twice in a minute. API servers cache a token for 10 s.

# Rights

In remotes the hub has exactly what the modules declare, unless Rules says otherwise. On its own API server it has everything: test
each hub part once with DeclaredHubRights. A module that lacks a rule fails as it does in production: let the test create,
change and delete what the module reacts to.

# Costs

Hub and remotes each have an API server of 270 MB, cleaned and lent to the next test. The first New with two remotes takes 7 to
11 s, later ones 0.4 s. "go run github.com/clusterfx/clusterfx/e2e/servers go test ./..." shares them between packages. They have
no controller manager: nothing is garbage-collected, and a deleted namespace stays.

Tests may be parallel, but hubs share the process: controller-runtime's metrics, klog, and what main sets. When a test ends, no
goroutine of its hub may be left, found by pprof labels; Baseline finds leaks while it runs.
*/
package hubtest
