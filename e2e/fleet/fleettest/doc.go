// SPDX-License-Identifier: Apache-2.0

// Package fleettest gives tests real clusters, without a word about where they come from.
//
// # Usage
//
// A package whose tests need a cluster shares one fleet between all of them:
//
//	func TestMain(m *testing.M) { os.Exit(fleettest.Main(m, fleettest.NoLeaks())) }
//
//	func TestSomething(t *testing.T) {
//		hub := fleettest.Cluster(t, "hub")
//		...
//	}
//
// The first test that asks for a cluster starts it (about a second), the others find it running;
// Main stops everything after the last test. Tests that share a cluster keep out of each other's
// way by using namespaces of their own. A test that stops, kills or freezes clusters takes a fleet
// of its own with New, or a cluster by a name that no other test uses.
//
// # Considerations
//
// No test is skipped because the control plane's binaries are missing: it fails and says which
// command builds them. A test that is skipped where it matters is one that nobody runs.
//
// The shared fleet is the one variable of this package. A test binary is one process with one
// Main, and starting a fleet per test would cost a second each.
package fleettest
