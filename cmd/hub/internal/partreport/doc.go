// SPDX-License-Identifier: Apache-2.0

/*
Package partreport reports the state of hub parts in a ConfigMap with a key for each replica, for people and commands.

	err := manager.Add(&partreport.Writer{Client: c, Namespace: n, Replica: r, Parts: parts, Check: check, Log: log})

	reports, err := partreport.Read(ctx, reader, namespace)

A replica writes when a state has changed, and removes its key when it ends; [Forget] removes that of a killed one. So a
report does not tell whether its replica is alive, only since when a state is what it is. The hub never reads a report
and never waits for it.
*/
package partreport
