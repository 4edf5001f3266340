// SPDX-License-Identifier: Apache-2.0

/*
Package dev is the command dev of a hub: a management cluster, remotes and the hub itself, on this
machine, for as long as somebody looks at them.

# Usage

	root.AddCommand(dev.Command(dev.Program{Name: "hub", Hub: prepareHub, Stdout: out, Stderr: err}))

The caller prepares a hub that logs where it is told to; the rest is the same for every hub, also
for one with a user's own modules.

# What happens

	claim the data folder            one dev per folder; what a killed one left there is removed
	start clusters                   e2e/fleet: processes, or kind; the hub's and the remotes' at once
	write a kubeconfig               one file, one context per cluster
	install                          the CRD and the credentials namespace
	simulate                         Nodes and Pods in the remotes, so that modules have something to see
	register                         one labelled Secret per remote, with the token of an account
	run the hub                      in this process, as an account, with its log in the data folder
	wait, print, wait                until all are Ready; what kubectl would print; until Ctrl-C

Whatever ends this (Ctrl-C in the middle of any step, a step that fails, a hub that ends) takes the
same way out: the hub is stopped, then the clusters, then the files are removed. A log that explains
a failure stays.

# In the background

With --detach the command starts itself once more, in a session of its own, and passes on what that
says until it is ready. That process does what the one in the foreground does, so there is one way
to start and one to stop, and one process that owns everything: if it is killed, the clusters die
with it. The lock on the data folder tells who it is, and when it has gone; down sends it SIGTERM
and waits for that.

# Considerations

The hub is no administrator, neither of its own cluster nor of the remotes: a module that has forgotten to
declare a permission shows here, and not in production only. The kubeconfig for people is an administrator's.

Simulated Nodes are objects without a kubelet. They stay Ready because the fleet runs no controller
that would miss a heartbeat; the nodes of kind are real, so nothing is simulated there.

Progress goes to stderr and results go to stdout, as from kubectl.
*/
package dev
