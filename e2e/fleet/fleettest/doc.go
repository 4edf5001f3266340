// SPDX-License-Identifier: Apache-2.0

// Package fleettest gives tests real clusters, independently of their provider.
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
// The first test that asks for a cluster starts it (about a second), later tests find it running; Main stops everything
// after the last test. Tests that share a cluster use separate namespaces. A test that stops, kills or freezes clusters
// uses its own fleet with New, or a cluster with a name that no other test uses.
//
// # Considerations
//
// No test is skipped because the control plane's binaries are missing: it fails and names the command that builds them.
// A test that is skipped when it matters is useless.
//
// The shared fleet is the one variable of this package. A test binary is one process with one
// Main, and starting a fleet per test would cost a second each.
package fleettest
