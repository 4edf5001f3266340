// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// A Proxy forwards TCP connections to a server as the fault lets it. New makes it; the caller must call Close. It is
// safe for many goroutines.
type Proxy struct {
	addr           string
	accepted, lost atomic.Int64

	// switching serializes Set, Swap and Close, and protects door.
	switching sync.Mutex
	door      *door

	// mu protects the fields below, for a few instructions.
	mu       sync.Mutex
	set      *setting
	upstream string
	conns    map[*conn]struct{}
	closed   bool

	running sync.WaitGroup
}

// setting is a fault while it is set.
type setting struct {
	Fault
	limits [directions]*rate.Limiter // nil for any rate
	ended  chan struct{}             // closed when another fault is set
}

func newSetting(f Fault) *setting {
	s := &setting{Fault: f, ended: make(chan struct{})}
	for i, r := range f.rules {
		if r.rate > 0 {
			s.limits[i] = rate.NewLimiter(rate.Limit(r.rate), max(r.rate/10, 1))
		}
	}
	return s
}

// ErrClosed is returned by the methods of a Proxy that was closed.
var ErrClosed = errors.New("the fault proxy is closed")

// New listens on a port of 127.0.0.1 and forwards to upstream, a host with a port or the URL of an API server, once a
// client connects.
func New(upstream string) (*Proxy, error) {
	address, err := addressOf(upstream)
	if err != nil {
		return nil, fmt.Errorf("start a fault proxy: %w", err)
	}
	p := &Proxy{set: newSetting(Pass()), upstream: address, conns: map[*conn]struct{}{}}
	if p.door, err = newDoor(p.admit); err != nil {
		return nil, fmt.Errorf("start a fault proxy: %w", err)
	}
	p.addr = p.door.addr.String()
	return p, nil
}

func addressOf(upstream string) (string, error) {
	if !strings.Contains(upstream, "://") {
		_, _, err := net.SplitHostPort(upstream)
		return upstream, err
	}
	u, err := url.Parse(upstream)
	if err != nil {
		return "", err
	}
	if u.Port() != "" {
		return u.Host, nil
	}
	return net.JoinHostPort(u.Hostname(), "443"), nil
}

// Addr returns where the proxy listens, as host:port. It never changes.
func (p *Proxy) Addr() string { return p.addr }

// Set replaces the fault. When it returns, that applies to new connections, and to the next data of existing ones. If
// the port was taken while connections were refused it fails; connections stay refused, and Set can be retried.
func (p *Proxy) Set(f Fault) error {
	p.switching.Lock()
	defer p.switching.Unlock()
	if p.isClosed() {
		return ErrClosed
	}
	err := p.door.to(f.door)
	if err != nil {
		return fmt.Errorf("listen at %s again: %w", p.addr, err)
	}
	for _, c := range p.change(f) {
		if f.reset || c.holed.Load() {
			c.end(true)
		}
	}
	return nil
}

func (p *Proxy) change(f Fault) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.set.ended)
	p.set = newSetting(f)
	return p.connsLocked()
}

func (p *Proxy) connsLocked() []*conn {
	all := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		all = append(all, c)
	}
	return all
}

func (p *Proxy) setting() *setting {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set
}

// Swap connects the proxy to another upstream (see New), and resets existing connections.
func (p *Proxy) Swap(upstream string) error {
	address, err := addressOf(upstream)
	if err != nil {
		return fmt.Errorf("swap the server behind a fault proxy: %w", err)
	}
	p.switching.Lock()
	defer p.switching.Unlock()
	p.mu.Lock()
	p.upstream = address
	conns, closed := p.connsLocked(), p.closed
	p.mu.Unlock()
	if closed {
		return ErrClosed
	}
	for _, c := range conns {
		c.end(true)
	}
	return nil
}

// Close ends every connection, and returns when all goroutines have ended. It may be called again.
func (p *Proxy) Close() {
	p.switching.Lock()
	defer p.switching.Unlock()
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	conns := p.connsLocked()
	p.mu.Unlock()
	if closed {
		return
	}
	_ = p.door.to(doorShut) // nothing in the way of that
	for _, c := range conns {
		c.end(true)
	}
	p.running.Wait()
}

func (p *Proxy) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *Proxy) admit(client *net.TCPConn) {
	p.accepted.Add(1)
	c := newConn(p, client)
	p.mu.Lock()
	if p.closed || p.set.reset && p.set.door == doorOpen {
		p.mu.Unlock()
		c.end(true)
		return
	}
	c.address = p.upstream
	p.conns[c] = struct{}{}
	p.mu.Unlock()
	p.running.Go(func() {
		defer p.forget(c)
		c.run()
	})
}

func (p *Proxy) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// Stats has the counters of a proxy.
type Stats struct {
	// Open are those of Accepted that have not ended.
	Accepted, Open int64
	Lost           int64 // bytes
}

// Stats returns the counters of now.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	open := int64(len(p.conns))
	p.mu.Unlock()
	return Stats{Accepted: p.accepted.Load(), Open: open, Lost: p.lost.Load()}
}
