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

// Socket is the environment variable with the Unix socket at which a process lends clusters to the tests that it runs.
const Socket = "CLUSTERFX_POOL"

// A process borrows each cluster over a connection of its own: it sends an order and receives a loan, then it sends actions
// and receives their results. The end of the connection gives the cluster back, so that a process that is killed keeps
// nothing.

// order asks for a cluster.
type order struct {
	Role Role   `json:"role"`
	For  string `json:"for"` // who borrows: the folder of the test's package
}

// reply answers an order or an action.
type reply struct {
	Loan  *fleet.Loan `json:"loan,omitempty"`
	Error string      `json:"error,omitempty"`
}

// giveBack is the action after which the connection ends; the other actions are fleet's.
const giveBack = "give back"

// Serve lends the clusters of the pool to other processes until ctx ends; the caller must end all clusters then. It returns when
// all connections are closed. It calls used with the processor time of each API server while a
// borrower had it, and when it was cleaned.
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

// lend serves one loan.
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

// A Borrower is the pool of another process.
type Borrower struct {
	socket, name string

	mu    sync.Mutex // protects loans; held for operations on it only
	loans map[*fleet.Cluster]*loan
}

var _ Lender = (*Borrower)(nil)

// Borrow returns the pool that serves this Unix socket. name tells the pool who borrows.
func Borrow(socket, name string) *Borrower {
	return &Borrower{socket: socket, name: name, loans: map[*fleet.Cluster]*loan{}}
}

// loan is the borrower's side of a connection.
type loan struct {
	mu   sync.Mutex // held from an action to its result, since a connection has one at a time
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
	end  func() // of what the borrower does with the cluster
	lost error  // why there are no more actions: the reply to one may still come
}

// Take borrows a cluster. It blocks while the pool starts one.
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

// GiveBack gives a cluster back, and returns when it is clean.
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

// Close gives all clusters back and does not wait until they are clean.
func (b *Borrower) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.loans {
		l.end()
		_ = l.conn.Close()
	}
	clear(b.loans)
}

// do lets the pool do something with the cluster.
func (l *loan) do(ctx context.Context, action string) error {
	_, err := l.send(ctx, action)
	return err
}

// send sends a message and returns the reply, or its error. It blocks until the reply, or the end of ctx. The connection stays
// open then, since its end gives the cluster to another test.
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
