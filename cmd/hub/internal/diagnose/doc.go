// SPDX-License-Identifier: Apache-2.0

/*
Package diagnose finds faults of a remote, of a Secret before it registers one, of a context of a kubeconfig, and of
the hub's installation.

	for _, f := range diagnose.Remote(ctx, target) {
		fmt.Println(f.Level, f.Check, f.Text, f.Advice)
	}

Every check has a line, in the order in which a connection is made; the report ends after a failure on which the rest
depends. The hub's own code judges a Secret: parser, rules for addresses, transport. The network is that of this
machine; how the hub sees a remote is in the Cluster's conditions.
*/
package diagnose
