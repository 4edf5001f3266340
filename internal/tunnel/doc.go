// SPDX-License-Identifier: Apache-2.0

/*
Package tunnel connects a hub with remotes that it cannot dial: an agent in the remote dials out, and the hub opens connections to
the remote's API server through that.

	the agent                                    the hub
	  WebSocket (a proxy, a balancer)  ────────>   Hub.ServeHTTP
	    TLS 1.3: both keys are known   <───────>
	      HTTP/2: server               <───────    client
	        CONNECT host:port          <───────    Hub.Dial, one stream for each connection
	          bytes                    <───────>   TLS of the API server, end to end

The agent is a pipe to the one address that it is configured with, Agent.To. It refuses another one, sees no plaintext, and has no
rights in the remote. Both sides have an Ed25519 key (Key) and know that of the other side by its fingerprint, so that no authority
and no date is involved, and a proxy that ends the outer TLS sees nothing.

A replica of the hub has one connection of each agent, and a second agent is refused while the first responds to a ping. Each replica
tells its agents the names of all, and an agent that wants to reach another one says so to the one that a balancer gives it, which
passes the bytes on. So whichever replica runs a remote has its agent, also before it takes over. An agent that is away is a
*DownError of Dial. All streams of a connection together never fill its window; more are refused, not queued. Both sides ping, so that
each notices within 20 s that the other is gone.

A request that names no accepted key is refused before TLS. Attempts with an accepted key are limited for each key and address.
*/
package tunnel
