// SPDX-License-Identifier: Apache-2.0

/*
Package hostile runs API servers that lie, to test clients that trust them. A Server stands in front of a real API
server, which responds to what its Script does not match:

	for _, script := range hostile.Scripts() {
		s, err := hostile.New(cluster.Kubeconfig(), script)
		...
		client := clientFor(s.Kubeconfig())
		...
		s.Close()
	}

It speaks HTTP/2, or HTTP/1.1 for bytes that no HTTP library would write. Its kubeconfig has an authority and a token
of its own; it reaches the real server as the administrator. Lies are made while they are sent, so that it can run in
the process whose memory is measured. A second server is the target of redirects, and records what arrives.

Scripts use ConfigMaps, which every cluster and scheme has. A script about lists refuses the watch of informers that
begins with all objects, like API servers before Kubernetes 1.32, and client-go lists instead.
*/
package hostile
