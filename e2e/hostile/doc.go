// SPDX-License-Identifier: Apache-2.0

/*
Package hostile runs API servers that lie, to test their effect on clients that trust them.

# Usage

A Server stands in front of a real API server and responds according to a Script:

	for _, script := range hostile.Scripts() {
		s, err := hostile.New(cluster.Kubeconfig(), script)
		...
		client := clientFor(s.Kubeconfig())
		...
		s.Close()
	}

The real API server responds to all requests that a script does not match, so that a client gets as far as the lie. The
zero Script is honest.

# How it works

A Server speaks HTTP/2, or HTTP/1.1 if the script has to write bytes that no HTTP library would. It has its own
certificate authority; its kubeconfig has that, and a bearer token which is valid only here. The Server reaches the real
API server as the administrator of the kubeconfig of New.

Lies are made while they are sent, from small buffers: a Server needs little memory of its own, so
that it can run in the process whose memory is measured. A lie without an end ends when the client
hangs up or the Server is closed.

Each Server has a second server, with a certificate of the same authority, as the target of redirects. It records
everything that arrives there.

# Considerations

Scripts about objects use ConfigMaps. The kind makes no difference to the lie, and ConfigMaps are in every cluster and
in every client's scheme.

Informers request their objects with a watch that begins with all of them. A script about lists refuses such a watch
like API servers before Kubernetes 1.32, and client-go lists instead.
*/
package hostile
