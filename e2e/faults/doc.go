// SPDX-License-Identifier: Apache-2.0

/*
Package faults holds the fault suite: real faults, and the response of the hub.

In each row of TestFaults one remote breaks, reports its fault in time, is restored, and works again in time, while two
healthy ones under load must not be affected: no lease fails, every write is reconciled, Ready does not change, no app
is replaced. TestFaults_OfTheHub is about a hub that lacks a resource, and TestFigure_... measure the times in
docs/performance.md.

	go test -v -timeout 90m ./e2e/faults      at least half an hour
	CLUSTERFX_FIGURES=figures.md go test -timeout 60m -run TestFigure ./e2e/faults

A figure that misses its goal is marked; the test fails by the factor farOff only, since figures need an idle machine.
A remote is a name for one of the API servers (e2e/fleet), with a connection that can be broken (e2e/fault). Those
that are killed or frozen take turns with a server. Times are those of Cluster objects as a
client sees them.
*/
package faults
