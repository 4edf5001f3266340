// SPDX-License-Identifier: Apache-2.0

/*
Package app is the package that a custom hub imports: the program, and the hub as a function for tests.

# Usage

A hub with modules of your own is one line of Go, with the commands, flags and logs of the stock
hub:

	func main() { os.Exit(app.Main(podcount.Module)) }

Modules that come with clusterfx are added by name, or all of them with modules.All. Tests run a
hub in their own process:

	err := app.Run(ctx, app.Options{Config: config, Modules: []registry.Module{podcount.Module}})

# Hub parts

The hub is one fx App, and the hub part of every module is an App of its own. It may request
the values that registry.HubPart lists, and:

	cluster.Settings       such as the credentials namespace
	fx.Shutdowner          ends the hub, with an exit code

An unnamed value belongs to the cluster that the App runs against, here the hub, as in a remote's
App it belongs to the remote.

# Where the rest is

The packages below cmd/hub/internal do the work, and only this package is for users:

	process      the running hub: its App, leader election, its life in terms
	command      the command line, one file for each command
	hubconfig    flags and the configuration file
	roles        the permissions of a hub
	signals      SIGINT and SIGTERM

Main reports the error of a hub as the exit status of the program: no other function exits. Run does not touch the
global state of the process, so that two hubs can run in one test.
*/
package app
