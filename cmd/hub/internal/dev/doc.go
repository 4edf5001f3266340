// SPDX-License-Identifier: Apache-2.0

/*
Package dev is the command dev of a hub: it runs a management cluster, remotes and the hub on this machine until the
user stops it.

	root.AddCommand(dev.Command(dev.Program{Name: "hub", Hub: prepareHub, Stdout: out, Stderr: err}))

Its steps:

	claim the data folder            one dev per folder; the files of a killed dev are removed
	start clusters                   e2e/fleet: processes, or kind; the hub's and the remotes' at once
	write a kubeconfig               one file, one context per cluster
	install                          the CRD and the credentials namespace
	simulate                         Namespaces, Nodes and Pods in the remotes
	apply                            the objects of --apply in the hub
	register                         one labelled Secret per remote, with the token of an account
	run the hub                      in this process, as an account; with --replicas, a process for each
	wait, print, wait                until all are Ready; the output of kubectl get; until Ctrl-C

Whatever ends it, it stops the hub, then the clusters, and removes the files. A log that explains a failure stays.
With --detach a second process, in a session of its own, runs the same steps; the lock on the data folder names it,
and down sends it SIGTERM and waits for the lock. With --replicas the replicas are processes that a user can kill; a
shell on a pipe ends each with this process.

The hub is no administrator anywhere, so that a module without a declared permission fails here, and not in production
only. Simulated Nodes stay Ready because no controller misses a kubelet; with kind nothing is simulated. Progress goes
to stderr, results to stdout.
*/
package dev
