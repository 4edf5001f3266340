// SPDX-License-Identifier: Apache-2.0

/*
Package fault breaks the network between a client and a server, for tests and labs.

# Usage

A Proxy listens on loopback and forwards to one server. Its clients use the kubeconfig that leads
to it; then the way is broken and mended as often as it takes:

	p, err := fault.New(cluster.Server())
	defer p.Close()
	kubeconfig, err := p.Kubeconfig(cluster.Kubeconfig())
	...
	err = p.Set(fault.Blackhole())
	err = p.Set(fault.Pass())

What can be set:

	Pass          everything flows; how a Proxy begins
	Refuse        connections are refused, those that exist are reset: the server's process died
	Reset         connections are reset, those that exist and each new one at once
	Blackhole     nothing arrives, in neither direction, and no connection comes about
	NeverRead     connections come about and nothing is ever read from them
	LoseRequests  what clients send is lost; what the server sends arrives
	LoseAnswers   what clients send arrives; what the server sends is lost
	Hold          as LoseAnswers, but what the server sends is kept and arrives when the fault ends
	Delay         everything arrives later
	Throttle      everything flows slowly
	CutAfter      each connection ends after a number of bytes of the server's
	Corrupt       bytes of the server's arrive changed

Swap lets the same address lead to another server.

# How it works

A connection has two directions, and each of them a reader and a writer with a queue of at most
4 MiB between them. The fault that is set says of each direction whether it is read from and what
becomes of the bytes. It is looked at again for each piece of data and whenever it changes, so that
it takes effect on connections that exist, in the middle of an answer too.

The bytes are TLS to the proxy. It needs no key, and a client sees the server's own certificate.

# Considerations

A stream with a hole is of no use to anybody. Where bytes were lost (LoseRequests, LoseAnswers) the
connection is reset as soon as another fault is set, Pass included. Where nothing was lost
(Blackhole, NeverRead, Hold, Delay, Throttle) connections that their ends did not give up go on, as
they do when a cable is plugged in again.

For Blackhole the kernel is made to drop the packets that begin a connection, by a listener whose
queue is full. So connecting hangs as it does with a firewall that drops; a client that was at it
when the fault ends gets through up to a few seconds later, when the kernel tries again.

The port is chosen below those that systems give to outgoing connections. So it is most likely
still free when Refuse ends, and Set says so if it is not.
*/
package fault
