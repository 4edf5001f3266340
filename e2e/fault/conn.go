// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a client's connection, with that to the server.
type conn struct {
	proxy   *Proxy
	client  *net.TCPConn
	address string // of the server
	holed   atomic.Bool

	ctx    context.Context //nolint:containedctx // It is the life of the connection.
	cancel context.CancelFunc
	mu     sync.Mutex
	server *net.TCPConn
}

func newConn(p *Proxy, client *net.TCPConn) *conn {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // A connection has no caller.
	return &conn{proxy: p, client: client, ctx: ctx, cancel: cancel}
}

// end does not wait for the goroutines. It resets, or lets sent data arrive first.
func (c *conn) end(reset bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	c.cancel()
	for _, one := range []*net.TCPConn{c.client, c.server} {
		if one == nil {
			continue
		}
		if reset {
			_ = one.SetLinger(0)
		}
		_ = one.Close()
	}
}

const dialTimeout = 10 * time.Second

func (c *conn) run() {
	if !c.waitFor(func(s *setting) bool { return !s.rules[up].stopped }) {
		return
	}
	server, err := c.dial()
	if err != nil || !c.adopt(server) {
		c.end(true)
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { c.pump(up, c.client, c.server) })
	pumps.Go(func() { c.pump(down, c.server, c.client) })
	pumps.Wait()
	c.end(false)
}

func (c *conn) dial() (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(c.ctx, "tcp", c.address)
	if err != nil {
		return nil, err
	}
	return server.(*net.TCPConn), nil
}

// adopt reports false if everything has ended meanwhile.
func (c *conn) adopt(server *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		_ = server.Close()
		return false
	}
	c.server = server
	return true
}

// waitFor returns false when the connection ends.
func (c *conn) waitFor(ask func(*setting) bool) bool {
	for {
		s := c.proxy.setting()
		if ask(s) {
			return true
		}
		select {
		case <-s.ended:
		case <-c.ctx.Done():
			return false
		}
	}
}

// Of the queue of a direction.
const (
	pieceSize = 16 << 10
	queueSize = 256
)

type piece struct {
	data []byte
	read time.Time
	luck float64 // see rule.due
}

// pump closes the destination for writing when the source ends.
func (c *conn) pump(way direction, from, to *net.TCPConn) {
	queue := make(chan piece, queueSize)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(queue)
		if !errors.Is(c.read(way, from, queue), io.EOF) {
			c.end(true)
		}
	})
	w := writer{conn: c, way: way, to: to}
	for p := range queue {
		if !w.deliver(p) {
			c.end(true) // which ends the reader, too
		}
	}
	reading.Wait()
	if c.waitFor(func(s *setting) bool { return !s.rules[way].stopped }) {
		_ = to.CloseWrite()
	}
}

// read returns io.EOF if everything was read.
func (c *conn) read(way direction, from *net.TCPConn, queue chan<- piece) error {
	for {
		if !c.waitFor(func(s *setting) bool { return !s.rules[way].unread }) {
			return net.ErrClosed
		}
		buffer := make([]byte, pieceSize)
		n, err := from.Read(buffer)
		if n > 0 {
			select {
			case queue <- piece{data: buffer[:n], read: time.Now(), luck: 2*rand.Float64() - 1}:
			case <-c.ctx.Done():
				return net.ErrClosed
			}
		}
		if err != nil {
			return err
		}
	}
}
