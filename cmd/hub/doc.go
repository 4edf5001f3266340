// SPDX-License-Identifier: Apache-2.0

// Command hub is the stock hub of clusterfx: the control plane with every module that comes with
// it.
//
//	hub run          run against a management cluster
//	hub dev          start a management cluster and remotes on this machine, and a hub
//	hub register     make an account for the hub in a remote, and a Cluster in the hub
//	hub deregister   undo that
//	hub rotate       renew the credential of a remote
//	hub get          list modules and replicas
//	hub describe     show a Cluster in full
//	hub pause        stop the app of a remote; hub resume starts it again
//	hub check        find problems of a remote, a Secret, a context or the installation
//	hub sync         show what a rule of synced objects would write
//	hub entity       show, write and accept entities and their buckets
//	hub deletes      list held deletes, and allow them
//	hub graph        draw the dependency graph of the hub or of an app, or check it
//	hub install      install the hub into its cluster
//	hub config       check a configuration file
//	hub new          write a module with its test
//	hub rbac         print the roles that the hub and its modules need
//	hub completion   print a script for a shell
//	hub version      print the version
//
// Each command explains itself with --help. A hub with other modules is a main function of the
// same length; see the package app, and examples/podcount.
package main
