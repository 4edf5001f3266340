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
// A Cluster can be stopped, killed, frozen and restarted with its data. Tests start from the package fleettest, which
// shares one fleet between the tests of a package. The clusters of the Processes provider need the programs that
// `make controlplane` builds; clusters of Kind need Docker.
//
// With Options.Audit a test can read the requests to a cluster, for instance how often an informer has relisted since a
// credential was replaced:
//
//	lists, err := remote.AuditEvents(fleet.ByAgent("clusterfx/"), fleet.Since(then), fleet.AuditEvent.Lists)
//
// A cluster of processes has no nodes: Pods and Nodes are only objects. Without Options.ControllerManager nothing is
// garbage-collected, and a deleted namespace stays.
//
// # How it works
//
// Each cluster is a kube-apiserver with its own authority, service account key and port. One etcd per fleet keeps the
// data of all clusters, each below its own prefix; it listens on a Unix socket in a folder that only its owner can
// enter. Authentication, RBAC, admission, priority and fairness and anonymous access have the upstream defaults, so
// that a test runs under a user's conditions.
//
// A cluster is ready about two and a half seconds after Create: one until the API server serves, one of waiting before
// it writes its default RBAC rules, and some to write them. Clusters that are created concurrently share the waiting;
// each takes one and a half seconds of processor time.
//
// Every process dies with the process that started it, even if that is killed: a shell in the background of each
// program reads from a pipe whose other end only the owner has. The process that becomes the program starts the shell
// first, so that neither ever runs without the other. A detached fleet has no such shells; each of its programs holds a
// lock on a file with its process id, by which Open distinguishes it from another process that got the id later.
//
// # Considerations
//
// An API server issues no tokens of seconds, but of ten minutes at least, so the fleet signs such tokens itself, with
// its own keys. An API server also accepts a token for a minute after its end and caches a valid token for ten seconds.
// To avoid the minute, each token is bound to a Secret that is deleted on time; the ten seconds remain.
//
// The kernel's way to let a process die with its parent (PR_SET_PDEATHSIG) is not used: it exists on Linux only, and it
// follows the parent's thread, which Go may end at any time.
//
// Options.Addresses makes an API server listen on all interfaces, because a listener on 127.0.0.0/8 has one address or
// all of them. So it is off by default; clients still need a credential.
//
// Each cluster has its own authority, although one authority would work: an administrator of one cluster has no access
// to the next cluster, so that a test that mixes them up fails.
package fleet
