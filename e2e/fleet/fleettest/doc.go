// SPDX-License-Identifier: Apache-2.0

/*
Package fleettest gives tests real clusters. A package shares one fleet between its tests:

	func TestMain(m *testing.M) { os.Exit(fleettest.Main(m, fleettest.NoLeaks())) }

	func TestSomething(t *testing.T) {
		hub := fleettest.Cluster(t, "hub")
		...
	}

The first test that asks takes a cluster from the pool of all tests (package pool), later ones find it by its name,
and Main gives it back. Tests that share one must use separate namespaces. A test that stops, kills or freezes a
cluster must use a name of its own; one that needs flags, addresses, audit logs or a controller manager makes a fleet
with New. A test of more than a second of a processor calls Slow. Without the control plane's binaries a test fails,
and names the command that builds them.
*/
package fleettest
