// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// Socket is the environment variable with the Unix socket at which clusters are lent.
const Socket = "CLUSTERFX_POOL"

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

// lending is what a process may call on the connection over which it borrows one cluster. The end of the connection gives
// the cluster back, so that a killed process keeps nothing.
type lending struct {
	pool    *Pool
	ctx     context.Context //nolint:containedctx // It is that of the connection.
	used    func(borrower string, cpu time.Duration)
	order   Order
	cluster *fleet.Cluster // nil when it is given back
	before  time.Duration  // the processor time that it had used when it was lent
}

func (p *Pool) lend(ctx context.Context, conn net.Conn, used func(string, time.Duration)) {
	l := &lending{pool: p, ctx: ctx, used: used}
	calls := rpc.NewServer()
	_ = calls.RegisterName(service, l) // It fails for methods with other signatures.
	calls.ServeCodec(jsonrpc.NewServerCodec(conn))
	if l.cluster != nil && ctx.Err() == nil { // After ctx, the owner of the pool ends all clusters.
		_ = l.GiveBack(struct{}{}, nil) // It has ended the cluster then.
	}
}

// service is the name of a lending, and of its methods.
const (
	service  = "Lending"
	take     = service + ".Take"
	do       = service + ".Do"
	giveBack = service + ".GiveBack"
)

// Order is what a process asks for.
type Order struct {
	Role Role
	For  string // For says who borrows: the folder of the test's package
}

// Take takes a cluster for the process.
func (l *lending) Take(o Order, loan *fleet.Loan) error {
	c, err := l.pool.Take(l.ctx, o.Role)
	if err != nil {
		return err
	}
	l.order, l.cluster, l.before, *loan = o, c, c.ProcessorTime(), c.Loan()
	return nil
}

// Do carries out an action on the cluster.
func (l *lending) Do(action string, _ *struct{}) error { return l.cluster.Do(l.ctx, action) }

// GiveBack returns when the cluster is clean.
func (l *lending) GiveBack(_ struct{}, _ *struct{}) error {
	c := l.cluster
	l.cluster = nil
	err := l.pool.GiveBack(l.ctx, c)
	l.used(l.order.For, max(0, c.ProcessorTime()-l.before)) // A server that was killed counts no longer.
	return err
}

// Borrower is the pool of another process.
type Borrower struct {
	socket, name string

	mu    sync.Mutex // protects loans; held for operations on it only
	loans map[*fleet.Cluster]loan
}

var _ Lender = (*Borrower)(nil)

// Borrow returns the pool at a socket. name says who borrows.
func Borrow(socket, name string) *Borrower {
	return &Borrower{socket: socket, name: name, loans: map[*fleet.Cluster]loan{}}
}

type loan struct {
	calls *rpc.Client
	end   func() // of what the borrower does with the cluster
}

// Take blocks while the pool starts a cluster.
func (b *Borrower) Take(ctx context.Context, r Role) (*fleet.Cluster, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", b.socket)
	if err != nil {
		return nil, fmt.Errorf("borrow a cluster: %w", err)
	}
	l := loan{calls: jsonrpc.NewClient(conn)}
	var of fleet.Loan
	if err := l.call(ctx, take, Order{r, b.name}, &of); err != nil {
		return nil, errors.Join(fmt.Errorf("borrow a cluster: %w", err), l.calls.Close())
	}
	c, end, err := fleet.Borrow(ctx, of, func(ctx context.Context, action string) error {
		return l.call(ctx, do, action, &struct{}{})
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("borrow a cluster: %w", err), l.calls.Close())
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
	return errors.Join(l.call(ctx, giveBack, struct{}{}, &struct{}{}), l.calls.Close())
}

// Close gives all back without waiting until they are clean.
func (b *Borrower) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.loans {
		l.end()
		_ = l.calls.Close()
	}
	clear(b.loans)
}

// call blocks until the reply, or the end of ctx. The connection stays open, since its end gives the cluster to another test.
func (l loan) call(ctx context.Context, method string, args, reply any) error {
	call := l.calls.Go(method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		return call.Error
	case <-ctx.Done():
		return fmt.Errorf("an action on a borrowed cluster did not end in time: %w", context.Cause(ctx))
	}
}
