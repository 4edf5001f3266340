// SPDX-License-Identifier: Apache-2.0

/*
Package app is what a custom hub imports: the program, and the hub as a function for tests. A hub with modules of your
own, with the commands, flags and logs of the stock hub, is

	func main() { os.Exit(app.Main(podcount.Module)) }

Modules of clusterfx are added by name, or with modules.All. Tests run a hub in their process:

	err := app.Run(ctx, app.Options{Config: config, Modules: []registry.Module{podcount.Module}, Alone: true})

The hub is one fx App, and each module's hub part another, which may ask for what registry.HubPart lists, for
cluster.Settings, and for fx.Shutdowner, which ends the hub with an exit code. An unnamed value belongs to the hub's
cluster.

The work is done below cmd/hub/internal: process is the running hub, command the command line, hubconfig flags and
file, roles the permissions. Only Main returns the exit status of a program; Run does not touch global state, so that
two hubs can run in a test.
*/
package app
