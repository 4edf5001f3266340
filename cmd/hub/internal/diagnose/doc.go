// SPDX-License-Identifier: Apache-2.0

/*
Package diagnose looks for what is wrong: with a remote that is registered, with a Secret before it is,
with a context of a kubeconfig, or with the hub's installation.

# Usage

	report := diagnose.Remote(ctx, target)
	for _, f := range report {
		fmt.Println(f.Level, f.Check, f.Text, f.Advice)
	}

# Considerations

Every question has one line in the report, good or bad, in the order in which a connection is made. A step
that later ones need ends the report when it fails: what cannot be asked is not guessed.

What a hub would do with the data of a Secret is found out with the hub's own code, package
registry/kubeconfig: the same parser, the same rules for addresses, the same transport. The network is that of
whoever asks, though, and not the hub's: an address that is reached from here may not be from there. The
conditions of the Cluster say what the hub sees.
*/
package diagnose
