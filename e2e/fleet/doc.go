// SPDX-License-Identifier: Apache-2.0

// Package fleet starts and stops a fleet of real clusters and hands out kubeconfigs.
//
// # Usage
//
//	f, err := fleet.New(ctx, fleet.Options{})
//	defer f.Close(context.WithoutCancel(ctx))
//	remote, err := f.Create(ctx, "remote")
//	user, err := remote.MintToken(ctx, fleet.User{Name: "viewer", Rules: rules, Lifetime: time.Minute})
//	os.WriteFile("viewer.kubeconfig", user.Kubeconfig(), 0o600)
//
// A Cluster can be stopped, killed, frozen and restarted with its data. Tests start from the package
// fleettest, which shares one fleet between the tests of a package. The clusters of the Processes
// provider need the programs that `make controlplane` builds; those of Kind need Docker.
//
// With Options.Audit a test can ask what a cluster was asked, for instance how often an informer has
// listed everything since a credential was replaced:
//
//	lists, err := remote.AuditEvents(fleet.ByAgent("clusterfx/"), fleet.Since(then), fleet.AuditEvent.Lists)
//
// A cluster of processes has no nodes: Pods and Nodes are objects that nobody acts on. Without
// Options.ControllerManager nothing is garbage-collected, and a namespace that is deleted stays.
//
// # How it works
//
// Each cluster is a kube-apiserver with an authority, a service account key and a port of its own.
// One etcd per fleet keeps the data of all, each below its own prefix; it listens on a Unix socket
// in a folder that only its owner can enter. Authentication, RBAC, admission, priority and fairness
// and anonymous access are as upstream has them, so that a test meets what a user meets.
//
// A cluster is ready about two and a half seconds after Create: one for the API server to serve,
// one that it waits before it writes its default RBAC rules, and some to write them. Clusters that
// are created at once share the waiting; each takes two seconds of processor time.
//
// Every process dies with the one that started it, also if that is killed: a shell in the background
// of each program reads from a pipe whose other end only the owner has. It is started before the
// program, by the process that becomes the program, so that neither is ever without the other. A
// detached fleet has no such shells; each of its programs holds a lock on a file with its number,
// by which Open knows it from a stranger that was given the number later.
//
// # Considerations
//
// Credentials of seconds cannot be had from an API server, whose tokens live for ten minutes at
// least, so they are signed here, with the keys that the fleet made. It also accepts a token for a
// minute after its end and remembers a good one for ten seconds. The minute is avoided by binding
// each token to a Secret that is deleted on time; the ten seconds remain.
//
// The kernel's way to let a process die with its parent (PR_SET_PDEATHSIG) is not used: it is for
// Linux alone, and it follows the parent's thread, which Go ends when it likes.
//
// Options.Addresses makes an API server listen on all interfaces, since 127.0.0.0/8 is one address
// or all of them. That is why it is off by default; who reaches it still needs a credential.
//
// The clusters have authorities of their own, though one would do: an administrator of one cluster
// is a stranger in the next one, and the mistake of mixing two up shows.
package fleet
