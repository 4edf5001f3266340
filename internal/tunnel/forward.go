// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
)

// An agent has a connection with each replica, though a balancer connects it to any one: a replica passes the bytes of an agent that
// wants another replica on to that. TLS is between the agent and that other replica.

// headerFrom has the address of an agent whose connection a replica passes on.
const headerFrom = "Clusterfx-From"

// addressOf returns the address of an agent. Only another replica is believed whose connection it passes on.
func (h *Hub) addressOf(r *http.Request) string {
	address, from := hostOf(r.RemoteAddr), r.Header.Get(headerFrom)
	if from != "" {
		for _, peer := range h.o.Peers() {
			if hostOf(peer) == address {
				return from
			}
		}
	}
	return address
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// forward passes the connection of an agent on to another replica, until one of them or the hub ends it.
func (h *Hub) forward(w http.ResponseWriter, r *http.Request, from source, to string) {
	address := h.o.Peers()[to]
	if address == "" || r.Header.Get(headerFrom) != "" {
		http.Error(w, "unknown replica", http.StatusNotFound)
		return
	}
	there, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(h.life, "tcp", address)
	if err != nil {
		http.Error(w, "the replica cannot be reached", http.StatusServiceUnavailable)
		return
	}
	defer func() { _ = there.Close() }()
	defer context.AfterFunc(h.life, func() { _ = there.Close() })()
	r.Header.Set(headerFrom, from.address)
	if err := r.Write(there); err != nil {
		http.Error(w, "the replica cannot be reached", http.StatusServiceUnavailable)
		return
	}
	here, ahead, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	var copying sync.WaitGroup
	copying.Go(func() {
		pass(there, ahead.Reader)
		_ = there.Close()
	})
	pass(here, there)
	_ = here.Close()
	copying.Wait()
}

// pass copies with a small buffer, which is there as long as the connection.
func pass(to io.Writer, from io.Reader) {
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 4<<10))
}
