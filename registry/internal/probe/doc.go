// SPDX-License-Identifier: Apache-2.0

/*
Package probe connects to remotes and probes them. A Connection leads to one endpoint. It outlives the apps that use it,
because an unreachable remote has no app and must still be probed.

A Connection does three things, each with small requests that bypass the limits of the app:

  - A probe asks whether the API server is ready and, now and then, which cluster and which version it is.
  - A preflight asks which kinds the API server serves and which permissions the credentials have. The questions and the
    results are values of the package preflight.
  - A trial probes once with another credential, before the credential takes the place of the credential in use.

Over a slow network each of these requests takes its time. So at the first contact everything is requested at once: the
identity and, beside it, the version, the first preflight, and what the owner of the Connection adds (see Beside). The
identity alone decides whether the rest is used.

The package reports outcomes and decides nothing: the state machine decides which outcomes make a remote unreachable. A
failure that is due to the hub itself is not reported at first: a hub that is short of CPU time, file descriptors or
ports must not take its remotes for unreachable.

Start with New and Connection.Start. A Reviewer works with any client, so that the hub parts of modules use it for the
hub's own permissions.
*/
package probe
