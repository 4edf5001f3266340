// SPDX-License-Identifier: Apache-2.0

/*
Package nats runs NATS servers with JetStream as processes of their own, for tests: they can be killed, frozen, started again with
or without their data, and reached through a TCP proxy.

	s := nats.Start(t)
	s.Kill()
	s.Restart() // with its data
	s.Empty()   // without them

A server in the process of the test would be faster to start, but a client of one does not connect to its successor. Start builds the
program if it is missing, in the folder of the user's caches; go.mod has its version.
*/
package nats
