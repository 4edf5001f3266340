// SPDX-License-Identifier: Apache-2.0

/*
Package dev is the command dev of a hub: it runs a management cluster, remotes and the hub itself on this
machine until the user stops it.

# Usage

	root.AddCommand(dev.Command(dev.Program{Name: "hub", Hub: prepareHub, Stdout: out, Stderr: err}))

The caller prepares a hub that writes its log to the given place; the rest is the same for every hub, also
for one with a user's own modules.

# Steps

	claim the data folder            one dev per folder; the files of a killed dev are removed
	start clusters                   e2e/fleet: processes, or kind; the hub's and the remotes' at once
	write a kubeconfig               one file, one context per cluster
	install                          the CRD and the credentials namespace
	simulate                         Namespaces, Nodes and Pods in the remotes, so that modules have objects to read
	apply                            the objects of --apply in the hub
	register                         one labelled Secret per remote, with the token of an account
	run the hub                      in this process, as an account, with its log in the data folder; with --replicas,
	                                 a process for each replica
	wait, print, wait                until all are Ready; the output of kubectl get; until Ctrl-C

Whatever ends the command (Ctrl-C in the middle of any step, a step that fails, a hub that ends), it cleans
up in the same order: it stops the hub, then the clusters, and then removes the files. A log that explains
a failure stays.

# In the background

With --detach the command starts a second process of itself, in a session of its own, and prints the output
of that process until the hub is ready. The process in the background runs the same steps as a dev in the
foreground, so there is one way to start and one to stop, and one process that owns everything: if it is
killed, the clusters die with it. The lock on the data folder names this process and shows whether it still
runs; down sends it SIGTERM and waits until the lock is free.

# Replicas

With --replicas the command starts processes of the same program, with the command run. They are real processes, so that a user
can kill one of them. This process owns them: on Ctrl-C each gets SIGTERM, and is killed if it has not ended 30 seconds later. A
shell waits beside each of them on a pipe from this process, and kills the replica if this process is killed.

# Considerations

The hub is no administrator, neither of its own cluster nor of the remotes: a module whose author forgot to
declare a permission fails here, and not in production only. The kubeconfig for the user is an administrator's.

Simulated Nodes are objects without a kubelet. They stay Ready because the fleet runs no controller
that would miss a heartbeat; the nodes of kind are real, so nothing is simulated there.

Progress goes to stderr and results go to stdout, as from kubectl.
*/
package dev
