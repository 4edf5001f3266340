// SPDX-License-Identifier: Apache-2.0

/*
Package fleet starts and stops a fleet of real clusters and hands out kubeconfigs. Tests start from package fleettest.

	f, err := fleet.New(ctx, fleet.Options{})
	defer f.Close(context.WithoutCancel(ctx))
	remote, err := f.Create(ctx, "remote")
	user, err := remote.MintToken(ctx, fleet.User{Name: "viewer", Rules: rules, Lifetime: time.Minute})
	lists, err := remote.AuditEvents(fleet.ByAgent("clusterfx/"), fleet.Since(then), fleet.AuditEvent.Lists)

A Cluster can be stopped, killed, frozen and restarted with its data. Processes need what `make controlplane` builds,
Kind needs Docker. A cluster of processes has no nodes, and without Options.ControllerManager nothing is
garbage-collected and a deleted namespace stays.

Each cluster is a kube-apiserver with upstream defaults, and an authority, service account key and port of its own, so
that a test that mixes up two clusters fails. One etcd keeps all data, on a Unix socket that only its owner can reach.
A cluster is ready after about two and a half seconds, one and a half of processor time.

Every process dies with its owner, even if that is killed: a shell beside it reads from a pipe of the owner
(PR_SET_PDEATHSIG exists on Linux only, and follows a thread).

The fleet signs tokens of seconds itself, since API servers issue ten minutes at least. Each is bound to a Secret that
is deleted on time, because a server accepts a token for a minute after its end; ten seconds of cache remain.
Options.Addresses listens on all interfaces, since a listener has one address of 127.0.0.0/8 or all.
*/
package fleet
