// SPDX-License-Identifier: Apache-2.0

/*
Package probe connects to remotes and probes them. A Connection leads to one endpoint and outlives apps, because an
unreachable remote must still be probed. Its small requests bypass the limits of the app:

  - A probe asks whether the API server is ready and, now and then, which cluster and version it is.
  - A preflight asks for kinds and permissions, as values of the package machine.
  - A trial probes once with another credential.

At the first contact everything is requested at once, for slow networks; the identity alone decides whether the rest
is used (Beside). The package decides nothing: the machine does. A failure due to the hub itself (processor time, file
descriptors, ports) is not reported at first. Start with New and Connection.Start. A Reviewer works with any client.
*/
package probe
