// SPDX-License-Identifier: Apache-2.0

/*
Package hubtest is the test kit for authors of modules: a hub with the modules under test, and remotes,
on real API servers, with faults on demand.

# Setup

Tests need kube-apiserver and etcd. In this repository "make controlplane" builds them, once; in other modules, the
first test fails with the command that builds them. Neither Docker nor a TestMain is required.

	func TestPodcount(t *testing.T) {
		hub := hubtest.New(t, hubtest.Remotes("a", "b"), hubtest.Modules(podcount.Module))
		...
	}

A TestMain with Main is recommended, because it also finds leaked goroutines of the tests themselves:

	func TestMain(m *testing.M) { os.Exit(hubtest.Main(m)) }

# Usage

New returns when every remote is Ready. The test then plays the role of all other clients: it reads and writes as the
administrator of the hub (Hub) and of each remote (Hub.Remote), and faults do not affect it.

	Client, Create, Delete     on the API server itself
	WaitFor, WaitGone          for an object in the API server
	WaitCached                 until the cache of the hub, or of a remote's app, contains a write
	WaitReady, WaitNotReady,   for the Cluster of a remote
	WaitCondition, WaitModule,
	WaitModuleGone
	WaitHubPart                for the hub part of a module
	WaitHeld, AllowDeletes     for deletes of a module that the hub holds
	Eventually                 for anything else
	Registry                   for access to remotes as hub reconcilers have it

A wait that takes longer than Patience ends the test with the last observed state and the conditions of all Clusters.
To test that something does not happen, trigger a later event and wait for that event.

NewRemote, AddRemote, Register, RegisterBySecret, Change and Deregister create, change and remove remotes; Stop, Start
and Restart control the hub. Each setting that can differ from the default is an Option; ModuleConfig configures a
module as an operator does.

The hub's log is quiet: a failed test shows its last 50 lines, and with Verbose every test shows all lines.

HubCRDs and RemoteCRDs install a module's own kinds. The hub knows their Go types if the module registers them, in a
test as in production:

	registry.ModuleOptions{Hub: fx.Invoke(widgetv1.AddToScheme), HubRuns: registry.WithRemotes, Remote: ...}

The order of the options in the hub part does not matter to pipeline.Module and guard.Module.

# Deletes

The hub limits the deletes of modules as in production (see registry/deletes), and so the deletes of the test itself in a
lease; Client and Delete have no limits. WaitHeld waits until deletes are held, and AllowDeletes allows some of them. Deletes,
creates and holds count for ten minutes; a clock of the test makes them shorter:

	var ahead atomic.Int64
	hub := hubtest.New(t, hubtest.HubOptions(func(o *app.Options) {
		o.Registry.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}), ...)

# Faults

The faults are real. A TCP proxy (package e2e/fault) is between the hub and each API server; processes are killed; the
API server issues and checks the credentials.

	Blackhole, Refuse, Slow    the network; Repair ends a fault, Break sets any other fault. They work for the
	                           hub's own API server, too
	Kill, Restart              the remote's API server (Hub.Restart restarts the hub)
	RotateToken                the hub gets a new token, and the old one is revoked
	RevokeToken                the hub's token is revoked
	ExpireCertificate          the hub gets a client certificate, and it expires

A part that connects to a remote itself gets Remote.Kubeconfig, which uses the same proxy.

The probe determines how soon the hub notices a fault. Clusters that hubtest registers are probed every second, so a
remote that refuses connections is lost after 3 s, and a silent remote after 6 s (with the defaults of a Cluster, up
to 6 s and 14 s); both are Ready again 1 s after the fault. An API server caches a token for 10 s. If a remote is lost
again within a minute of its return, more successful probes are required before it is Ready, so use a separate test
for each outage, or wait.

# Sharing and costs

Each hub has its own API server, since Clusters have no namespace, and so has each remote. When the test ends, the
servers are cleaned and lent to the next test: all objects of the test are deleted, whatever finalizers they have, and
all objects are listed again. A server whose original objects were deleted or changed (a ClusterRole, a label of
the namespace default), or which does not run, is ended. The command e2e/servers lends the servers of one pool to all
test binaries of a run, as in "go run github.com/clusterfx/clusterfx/e2e/servers go test ./...".

Measured on two cores with other work on them: the first New with two remotes, which starts three API servers, took 7
to 11 s, since each start needs two seconds of a processor. Each later New took 0.4 s, or 0.9 s with the end of the
test and the cleaning. The number of servers, of 270 MB each, is the largest number that concurrent tests use; go test
-parallel bounds it.

The API servers have no controller manager: nothing is garbage-collected, and a namespace that is
deleted stays until the end of the test.

# Two hubs in one process

Tests may be parallel. Hubs share the global state of the process: controller-runtime's metrics, which contain the sum
over all hubs; klog; and the settings that New makes once, as the main function of a hub does: utilruntime's
ReallyCrash is false, and panics that libraries recover are counted against the module. If the test has set a logger
for controller-runtime, New keeps it; otherwise controller-runtime logs nothing. The collectors of modules go to a
separate registry for each hub.

# Leaks

When the test ends, no goroutine may be left that its hub has started, directly or indirectly; goroutines of other
tests do not count. pprof labels, which goroutines inherit, identify the hub. Baseline finds goroutines that leak
while the hub runs, such as goroutines of a deregistered remote.

# Considerations

The hub is the production hub, run by app.Run. It has one additional module, hubtest, which passes the registry to the
test, runs nothing in remotes, and appears in the status of no Cluster.

In remotes the hub has exactly the permissions that the modules declare, unless Rules gives it others. On its own API
server it has all permissions, unless DeclaredHubRights restricts it to the declared permissions; one test of each hub
part should use that option.

The test fails if an API server refuses a request of a module for which its Rules or HubRules have no permission, even
if the module then does what the test expects: an informer that may list and not watch lists again and again. The
refusal of a declared request does not fail the test, for example after RevokeToken. Requests of the test itself, for
example in WithClient, do not count.

Servers are not shared between tests that run at the same time. Namespaces would isolate most tests, but not Clusters,
CRDs, Nodes or faults, and a test that fails because of another test costs more than a second.

Methods end the test instead of returning errors, since a test could not handle the errors in another way. They take
no context either: every wait ends with the test.
*/
package hubtest
