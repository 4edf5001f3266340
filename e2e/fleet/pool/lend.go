// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// Socket is the environment variable with the Unix socket at which clusters are lent.
const Socket = "CLUSTERFX_POOL"

// A process borrows each cluster over a connection: it sends an order and gets a loan, then actions and results. The
// end of the connection gives the cluster back, so that a killed process keeps nothing.

type order struct {
	Role Role   `json:"role"`
	For  string `json:"for"` // who borrows: the folder of the test's package
}

type reply struct {
	Loan  *fleet.Loan `json:"loan,omitempty"`
	Error string      `json:"error,omitempty"`
}

// giveBack is the last action; the others are fleet's.
const giveBack = "give back"

// Serve lends the clusters until ctx ends, and returns when all connections are closed; the caller must end the
// clusters then. used gets the processor time of each API server while it was borrowed and cleaned.
func (p *Pool) Serve(ctx context.Context, l net.Listener, used func(borrower string, cpu time.Duration)) error {
	var lending sync.WaitGroup
	defer lending.Wait()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("wait for processes that borrow clusters: %w", err)
		}
		lending.Go(func() {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			p.lend(ctx, conn, used)
		})
	}
}

func (p *Pool) lend(ctx context.Context, conn net.Conn, used func(string, time.Duration)) {
	defer func() { _ = conn.Close() }()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	var o order
	if err := in.Decode(&o); err != nil {
		return
	}
	c, err := p.Take(ctx, o.Role)
	if err != nil {
		_ = out.Encode(reply{Error: err.Error()})
		return
	}
	before := c.ProcessorTime()
	loan := c.Loan()
	err = out.Encode(reply{Loan: &loan})
	for action := ""; err == nil; {
		if err = in.Decode(&action); err != nil || action == giveBack {
			break
		}
		err = out.Encode(replyTo(c.Do(ctx, action)))
	}
	if ctx.Err() != nil {
		return // The owner of the pool ends all clusters.
	}
	result := p.GiveBack(ctx, c)
	used(o.For, max(0, c.ProcessorTime()-before)) // A server that was killed counts no longer.
	if err == nil {
		_ = out.Encode(replyTo(result))
	}
}

func replyTo(err error) reply {
	if err != nil {
		return reply{Error: err.Error()}
	}
	return reply{}
}

// Borrower is the pool of another process.
type Borrower struct {
	socket, name string

	mu    sync.Mutex // protects loans; held for operations on it only
	loans map[*fleet.Cluster]*loan
}

var _ Lender = (*Borrower)(nil)

// Borrow returns the pool at a socket. name says who borrows.
func Borrow(socket, name string) *Borrower {
	return &Borrower{socket: socket, name: name, loans: map[*fleet.Cluster]*loan{}}
}

type loan struct {
	mu   sync.Mutex // held from an action to its result, since a connection has one at a time
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
	end  func() // of what the borrower does with the cluster
	lost error  // why there are no more actions: the reply to one may still come
}

// Take blocks while the pool starts a cluster.
func (b *Borrower) Take(ctx context.Context, r Role) (*fleet.Cluster, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", b.socket)
	if err != nil {
		return nil, fmt.Errorf("borrow a cluster: %w", err)
	}
	l := &loan{conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn)}
	result, err := l.send(ctx, order{Role: r, For: b.name})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("borrow a cluster: %w", err), conn.Close())
	}
	c, end, err := fleet.Borrow(ctx, *result.Loan, l.do)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("borrow a cluster: %w", err), conn.Close())
	}
	l.end = end
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loans[c] = l
	return c, nil
}

// GiveBack returns when the cluster is clean.
func (b *Borrower) GiveBack(ctx context.Context, c *fleet.Cluster) error {
	b.mu.Lock()
	l, ok := b.loans[c]
	delete(b.loans, c)
	b.mu.Unlock()
	if !ok {
		return fmt.Errorf("%s was not borrowed", c.Name())
	}
	l.end()
	return errors.Join(l.do(ctx, giveBack), l.conn.Close())
}

// Close gives all back without waiting until they are clean.
func (b *Borrower) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.loans {
		l.end()
		_ = l.conn.Close()
	}
	clear(b.loans)
}

func (l *loan) do(ctx context.Context, action string) error {
	_, err := l.send(ctx, action)
	return err
}

// send blocks until the reply, or the end of ctx, after which the connection stays open, since its end gives the
// cluster to another test.
func (l *loan) send(ctx context.Context, message any) (reply, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return reply{}, l.lost
	}
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Now()) })
	defer stop()
	var result reply
	err := l.out.Encode(message)
	if err == nil {
		err = l.in.Decode(&result)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		l.lost = fmt.Errorf("an action on a borrowed cluster did not end in time: %w", context.Cause(ctx))
		return reply{}, l.lost
	case err != nil:
		l.lost = fmt.Errorf("the process that lends clusters does not respond: %w", err)
		return reply{}, l.lost
	case result.Error != "":
		return reply{}, errors.New(result.Error)
	}
	return result, nil
}
