// SPDX-License-Identifier: Apache-2.0

// Package vcluster has the published examples of vcluster-sdk, vcluster's cert-manager plugin and its Nodes for Pods, each
// written with package syncer in a package of its own. examples/tests runs them between two API servers.
//
// An example that copies from the host to the tenant has the host upstream, unless the objects contain the names of their
// copies. Line counts are of lines that are not blank, with comments, without main.go and doc.go.
package vcluster
