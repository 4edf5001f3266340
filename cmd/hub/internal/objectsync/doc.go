// SPDX-License-Identifier: Apache-2.0

/*
Package objectsync shows what a rule of the module sync would write, in each of its remotes.

	d := objectsync.Diff{Hub: hub, HubID: id, Reach: reach, Rule: rule}
	changes, err := d.Run(ctx)

A hub need not run, and the rule need not be applied: remotes are reached with the Secrets of their Clusters. It sends dry runs, so that
defaults, webhooks and fields of others count, and returns no values, which may be a Secret's.
*/
package objectsync
