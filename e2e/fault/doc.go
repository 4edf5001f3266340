// SPDX-License-Identifier: Apache-2.0

/*
Package fault breaks the network between a client and a server. A Proxy on loopback forwards to one server:

	p, err := fault.New(cluster.Server())
	defer p.Close()
	kubeconfig, err := p.Kubeconfig(cluster.Kubeconfig())
	...
	err = p.Set(fault.Blackhole())
	err = p.Set(fault.Pass())

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

Swap connects the same address to another server. The fault is read for each piece of data and when it changes, so it
takes effect on existing connections. The bytes are TLS to the proxy, which needs no key.

A stream with a hole is useless: after LoseRequests and LoseAnswers a connection is reset with the next fault, Pass
included. After others it continues, as when a cable is plugged in again. Blackhole fills a listener's queue, so that
the kernel drops new connections; a client succeeds up to a few seconds after the end. The port is below those of
outgoing connections, so that it is most likely free when Refuse ends; otherwise Set fails.
*/
package fault
