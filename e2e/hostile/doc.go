// SPDX-License-Identifier: Apache-2.0

/*
Package hostile runs API servers that lie, to test what they do to those who trust them.

# Usage

A Server stands in front of a real API server and answers as a Script says:

	for _, script := range hostile.Scripts() {
		s, err := hostile.New(cluster.Kubeconfig(), script)
		...
		client := clientFor(s.Kubeconfig())
		...
		s.Close()
	}

Whatever a script does not care about is answered by the real API server, so that a client gets as
far as the lie. The zero Script is honest.

# How it works

A Server speaks HTTP/2, or HTTP/1.1 where the script has to write what no HTTP library would. It has
a certificate authority of its own; its kubeconfig has that, and a bearer token which is good here
and nowhere else. The real API server is reached as the administrator that New was given.

Lies are made while they are sent, from small buffers: a Server needs little memory of its own, so
that it can run in the process whose memory is measured. A lie without an end ends when the client
hangs up or the Server is closed.

Each Server has a second one elsewhere, with a certificate of the same authority, which redirects
lead to. It notes everything that arrives there.

# Considerations

The scripts are about ConfigMaps where they are about objects. Which kind it is makes no difference
to the lie, and this one is in every cluster and in every client's scheme.

Informers ask for their objects by a watch that begins with all of them. A script about lists
refuses that as API servers before Kubernetes 1.32 do, whereupon client-go lists.
*/
package hostile
