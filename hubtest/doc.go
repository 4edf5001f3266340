// SPDX-License-Identifier: Apache-2.0

/*
Package hubtest is the test kit for authors of modules: a hub with the modules under test, and remotes,
on real API servers, with faults on demand.

# Setup

Tests need kube-apiserver and etcd. In this repository "make controlplane" builds them, once; in yours,
the first test fails with the command that does. Nothing else is needed: no Docker, no TestMain.

	func TestPodcount(t *testing.T) {
		hub := hubtest.New(t, hubtest.Remotes("a", "b"), hubtest.Modules(podcount.Module))
		...
	}

A TestMain with Main is worth having, because it looks for goroutines of the tests themselves, too:

	func TestMain(m *testing.M) { os.Exit(hubtest.Main(m)) }

# Usage

New returns when every remote is Ready. The test then acts in the place of everybody else: it reads and
writes as the administrator of the hub (Hub) and of each remote (Hub.Remote), past the faults.

	Client, Create, Delete     on the API server itself
	WaitFor, WaitGone          for an object, as the API server has it
	WaitCached                 until the hub's cache, or that of a remote's app, has seen a write
	WaitReady, WaitNotReady,   for the Cluster of a remote
	WaitCondition, WaitModule,
	WaitModuleGone
	WaitHubPart                for the hub part of a module
	Eventually                 for anything else
	Registry                   what hub reconcilers reach remotes with

A wait that takes longer than Patience ends the test with the last thing it saw and the conditions of
all Clusters. To see that something does not happen, let something happen after it and wait for that.

Remotes come, change and go with NewRemote, AddRemote, Register, RegisterBySecret, Change and Deregister;
the hub, with Stop, Start and Restart. What differs from the default is an Option; ModuleConfig configures a module as an
operator does.

The hub's log is quiet: a test that fails shows its last 50 lines, and with Verbose each test all of them.

A module's own kinds are installed with HubCRDs and RemoteCRDs. The hub knows their Go types if the
module says so, in a test as in production:

	registry.ModuleOptions{Hub: fx.Invoke(widgetv1.AddToScheme), Remote: ...}

The order of the options in the hub part does not matter to pipeline.Module and guard.Module.

# Faults

They are real. A TCP proxy (package e2e/fault) is between the hub and each API server; processes are
killed; credentials are those of the API server.

	Blackhole, Refuse, Slow    the network; Mend ends it, Break takes any other fault. They work for the
	                           hub's own API server, too
	Kill, Restart              the remote's API server (of a Hub, Restart is that of the hub)
	RotateToken                the hub gets a new token, and the old one is revoked
	RevokeToken                the hub's token is revoked
	ExpireCertificate          the hub gets a client certificate, and it expires

A part that is to reach a remote in a way of its own gets Remote.Kubeconfig, which leads through the same proxy.

How soon the hub notices depends on the probe. That of Clusters registered here asks every second, so a
remote that refuses is lost after 3 s, and a silent one after 6 (with the defaults of a Cluster, up to 6
and 14); both are back after 1 s. An API server remembers for 10 s that a token was good. A remote that is
lost again within a minute of its return has to answer more probes before it is Ready, so give each
outage a test of its own, or time.

# What is shared, and what it costs

A hub has its API server for itself, since Clusters have no namespace, and so has each remote. When
the test ends they are cleaned and lent to the next test: everything that the test has made is deleted,
whatever finalizers it has, and all objects are listed once more. A server in which something is gone
or changed that was there at first (a ClusterRole, a label of the namespace default), or which does
not run, is ended.

Measured on two cores with other work on them: the first New with two remotes, which starts three API
servers, took 7 to 11 s, since each start needs two seconds of a processor. Every other one took 0.4 s,
and 0.9 s with the end of the test and the cleaning. There are as many servers as tests have at once, of
270 MB each; go test -parallel bounds that.

The API servers have no controller manager: nothing is garbage-collected, and a namespace that is
deleted stays until the end of the test.

# Two hubs in one process

Tests may be parallel. Hubs share with each other what is global to a process: controller-runtime's
metrics, in which hubs add up; klog; and what New sets, once, as a hub's main does: utilruntime's
ReallyCrash is false, and panics that libraries recover are counted against the module. A logger that
the test has given to controller-runtime stays; else it gets none. The collectors of modules go to a
registry of each hub's own.

# Leaks

When the test ends, no goroutine may be left that its hub has started, directly or not; those of other
tests do not count. They are told apart by pprof labels, which goroutines inherit. Baseline finds those that
are left while the hub runs, such as those of a remote that was deregistered.

# Considerations

The hub is the real one, run by app.Run. It gets one module more, hubtest, which hands its registry to
the test, runs nothing in remotes, and is in the status of no Cluster.

In remotes the hub has exactly the permissions that the modules declare, unless Rules gives it others. On its own API
server it has all, unless DeclaredHubRights gives it the declared ones; one test of each hub part should use that.

The test fails if an API server refuses a request of a module for which its Rules or HubRules have no permission, even if
the module then does what the test expects: an informer that may list and not watch lists again and again. A request that
the module declares may be refused, as after RevokeToken. Requests of the test itself, such as those of WithClient, do not
count.

Servers are not shared between tests that run at the same time. Namespaces would keep most tests apart,
but not Clusters, CRDs, Nodes or faults, and a test that fails because of another one costs more than
a second.

Methods end the test instead of returning errors, since a test could do nothing else with them. They
take no context either: every wait ends with the test.
*/
package hubtest
