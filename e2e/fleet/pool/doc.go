// SPDX-License-Identifier: Apache-2.0

/*
Package pool lends API servers to tests, one after the other: a start costs two and a half seconds of a processor, and
cleaning a twentieth of that. All objects of a test are deleted, whatever finalizers they have, and all objects are
listed again; a server whose original objects have changed is ended. An idle server is frozen. While the machine is
overloaded, hubs wait for each other. A test binary has a pool of its own, or borrows over a Unix socket from that of
the run, which the command e2e/servers starts.
*/
package pool
