// SPDX-License-Identifier: Apache-2.0

/*
Package fault breaks the network between a client and a server, for tests and labs.

# Usage

A Proxy listens on loopback and forwards to one server. Its clients use a kubeconfig that leads to the Proxy; then the
test breaks and restores the connection as often as necessary:

	p, err := fault.New(cluster.Server())
	defer p.Close()
	kubeconfig, err := p.Kubeconfig(cluster.Kubeconfig())
	...
	err = p.Set(fault.Blackhole())
	err = p.Set(fault.Pass())

The faults are:

	Pass          everything flows; the initial state of a Proxy
	Refuse        connections are refused, existing connections are reset: the server's process died
	Reset         existing connections are reset, and each new connection at once
	Blackhole     nothing arrives, in neither direction, and no connection is established
	NeverRead     connections are established and nothing is ever read from them
	LoseRequests  the data of clients is lost; the data of the server arrives
	LoseAnswers   the data of clients arrives; the data of the server is lost
	Hold          as LoseAnswers, but the data of the server is kept and arrives when the fault ends
	Delay         everything arrives later
	Throttle      everything flows slowly
	CutAfter      each connection ends after a number of bytes of the server's
	Corrupt       bytes of the server's arrive changed

Swap connects the same address to another server.

# How it works

A connection has two directions, and each of them a reader and a writer with a queue of at most 4 MiB between them. The
fault determines for each direction whether it is read from and what happens to the bytes. It is read again for each
piece of data and whenever it changes, so that it takes effect on existing connections, even in the middle of a
response.

The bytes are TLS to the proxy. It needs no key, and a client sees the server's own certificate.

# Considerations

A stream with a hole is useless. After lost bytes (LoseRequests, LoseAnswers) the connection is reset as soon as another
fault is set, Pass included. Without lost bytes (Blackhole, NeverRead, Hold, Delay, Throttle) connections that their
ends did not give up continue, as they do when a cable is plugged in again.

For Blackhole a listener with a full queue makes the kernel drop the packets that begin a connection. So connecting
hangs as it does with a firewall that drops packets; a client that is connecting when the fault ends succeeds up to a
few seconds later, when the kernel retries.

The port is below the ports of outgoing connections. So it is most likely still free when Refuse ends, and Set fails if
it is not.
*/
package fault
