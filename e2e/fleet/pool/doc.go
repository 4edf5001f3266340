// SPDX-License-Identifier: Apache-2.0

/*
Package pool lends API servers to tests, one after the other: a start costs two and a half seconds of a processor, and
cleaning a server a tenth of that. All objects that a test has left are deleted, whatever finalizers they have, and all
objects are listed again. A server whose original objects were deleted or changed (a ClusterRole, a label of the namespace
default), or which does not run, is ended.

Tests take servers from the package fleettest, or from hubtest. A test binary that is run alone has a pool of its own. make
test starts one for the whole run, the command e2e/servers, and each test binary borrows from it over a Unix socket.
*/
package pool
