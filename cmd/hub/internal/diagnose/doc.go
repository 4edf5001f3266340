// SPDX-License-Identifier: Apache-2.0

/*
Package diagnose finds faults: of a registered remote, of a Secret before it registers a remote, of a context of a
kubeconfig, and of the hub's installation.

# Usage

	report := diagnose.Remote(ctx, target)
	for _, f := range report {
		fmt.Println(f.Level, f.Check, f.Text, f.Advice)
	}

# Considerations

Every check has one line in the report, whether it passes or fails, in the order in which a connection is made. If
a check fails that later checks depend on, the report ends there, because the later results would be guesses.

The hub's own code, package registry/kubeconfig, decides how the hub would use the data of a Secret: the same
parser, the same rules for addresses, the same transport. The network, though, is the network of the machine that runs
the check: an address that is reachable from there may be unreachable for the hub. The conditions of the Cluster show
how the hub sees the remote.
*/
package diagnose
