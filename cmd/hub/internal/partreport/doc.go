// SPDX-License-Identifier: Apache-2.0

/*
Package partreport reports the state of the hub parts of modules in a ConfigMap, for people and for the commands
that show it.

# Usage

	w := partreport.NewWriter(partreport.Options{Client: c, Namespace: n, Replica: r, Parts: parts, Log: log}, changed)
	err := manager.Add(w)

	reports, err := partreport.Read(ctx, reader, namespace)

# Considerations

The leader writes the ConfigMap when it begins to lead, after a change, and every five minutes, so that readers can distinguish a
recent report from the report of a hub that no longer runs. A report that is older than three of these is Old. A standby
runs the hub parts, too, but only the leader reports.

Where several replicas share the Clusters, each has a report of its own in the same ConfigMap, under a key with its name. It
writes that key and no other one, by a merge patch without a version, so that replicas neither conflict nor overwrite each other.
A replica that leaves removes its key, and [Forget] removes the key of a replica that was killed. Readers ignore an Old report
while another one is recent.

The hub never reads the report. A write that fails is logged once and tried again, and nothing waits for it. The hub
that has all Clusters replaces the whole object, for which it needs the permission to update the object of that name, and to create
one.
*/
package partreport
