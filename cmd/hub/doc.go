// SPDX-License-Identifier: Apache-2.0

// Command hub is the stock hub of clusterfx: the control plane with every module that comes with
// it.
//
//	hub run       run against a management cluster
//	hub dev       start a management cluster and remotes on this machine, and a hub
//	hub version   print what this is
//
// Each command explains itself with --help. A hub with other modules is a main function of the
// same length; see the package app, and examples/podcount.
package main
