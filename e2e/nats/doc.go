// SPDX-License-Identifier: Apache-2.0

/*
Package nats runs NATS servers with JetStream as processes that can be killed, frozen, started again with or without
their data, and reached through a TCP proxy.

	s := nats.Start(t)
	s.Kill()
	s.Restart() // with its data
	s.Empty()   // without them

A client of a server in the test's process does not connect to its successor. Start builds the program if it is
missing; go.mod has its version.
*/
package nats
