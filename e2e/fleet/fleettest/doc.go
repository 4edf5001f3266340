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
// The first test that asks for a cluster takes it from the pool of all tests (package pool), later tests of the binary find
// it by its name; Main gives everything back after the last test. Tests that share a cluster use separate namespaces. A
// test that stops, kills or freezes a cluster uses a name that no other test uses; one that needs flags, addresses, audit
// logs or a controller manager has its own fleet with New.
//
// A test that takes more than a second of a processor calls Slow.
//
// # Considerations
//
// No test is skipped because the control plane's binaries are missing: it fails and names the command that builds them.
// A test that is skipped when it matters is useless.
//
// What the tests of a binary share is the one variable of this package: a test binary is one process with one Main.
package fleettest
