// SPDX-License-Identifier: Apache-2.0

/*
Package partreport reports the state of the hub parts of modules in a ConfigMap, for people and for the commands
that show it.

# Usage

	w := partreport.NewWriter(partreport.Options{Client: c, Namespace: n, Replica: r, Parts: parts, Log: log}, changed)
	err := manager.Add(w)

	report, err := partreport.Read(ctx, reader, namespace)

# Considerations

The leader writes the ConfigMap when it begins to lead, after a change, and every five minutes, so that readers can distinguish a
recent report from the report of a hub that no longer runs. A report that is older than three of these is Old. A standby
runs the hub parts, too, but only the leader reports.

The hub never reads the report. A write that fails is logged once and tried again, and nothing waits for it. The hub
replaces the whole object, for which it needs the permission to update the object of that name, and to create one.
*/
package partreport
