// SPDX-License-Identifier: Apache-2.0

/*
Package partreport reports the state of hub parts in a ConfigMap, for people and commands.

	w := partreport.NewWriter(partreport.Options{Client: c, Namespace: n, Replica: r, Parts: parts, Log: log}, changed)
	err := manager.Add(w)

	reports, err := partreport.Read(ctx, reader, namespace)

The leader writes when it begins to lead, after a change, and every five minutes; a report three times as old is Old.
Replicas that share the Clusters write a key each, by a merge patch without a version, so that they do not conflict. A
replica that leaves removes its key, and [Forget] that of a killed one; readers ignore an Old report beside a recent
one. The hub never reads a report and never waits for it; a failed write is logged once and repeated.
*/
package partreport
