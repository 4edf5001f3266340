// SPDX-License-Identifier: Apache-2.0

// Package vcluster contains the published examples of vcluster-sdk, the cert-manager plugin of vcluster, and the Nodes that
// vcluster makes for Pods, each written with package syncer, in a package of its own. The tests in examples/tests run them between two API servers.
//
// The original of each example works between a virtual cluster, the tenant, and its host. A pair has an upstream cluster with
// the originals and a downstream cluster with the copies. So an example that copies from the host to the tenant has the host
// upstream, unless the copies go to names that the objects themselves contain.
//
// Line counts in the package documentations are lines that are not blank, with comments and without main.go and doc.go.
package vcluster
