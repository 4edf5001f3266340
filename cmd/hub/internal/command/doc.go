// SPDX-License-Identifier: Apache-2.0

/*
Package command is the command line of a hub, with one file for each command.

	code := command.Execute(ctx, command.Program{Args: os.Args, Stdout: os.Stdout, Stderr: os.Stderr, Modules: modules})

The file of a command has its flags, its help and the order of its steps. The steps are in the package that the command
is about: register, deregister and rotate in enroll, get and describe in inspect, check in diagnose, install in install,
dev in dev, run in process. A command that works on a cluster has a session: the connection to the hub's
cluster, the terminal, and the exit status for an interrupted command.

Errors are returned and printed once, by Execute. An error that has been printed already is a process.ExitError, which
only carries the exit status.

The pages in docs/cli are generated from the commands; tests check that every command explains itself, that every page
names commands and flags that exist, and that every message about arguments has the right syntax.

A program that is built with the tag nodev has no command dev, nor the packages that it needs: the fleet, kind, and
the NATS server.
*/
package command
