// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// Role is the purpose of an API server.
type Role string

const (
	// Hub has the CRDs of clusterfx and the namespace of a hub.
	Hub Role = "hub"
	// Remote is as kube-apiserver starts it.
	Remote Role = "remote"
)

// A Lender is a Pool, or a Borrower in another process.
type Lender interface {
	// Take returns a clean cluster that no other test uses. It may block for a start.
	Take(ctx context.Context, r Role) (*fleet.Cluster, error)
	// GiveBack blocks until the cluster is clean. After an error the lender has ended it.
	GiveBack(ctx context.Context, c *fleet.Cluster) error
}

// A Pool starts API servers and lends them. It is safe for many goroutines.
type Pool struct {
	create func(ctx context.Context, name string) (*fleet.Cluster, error)
	turns  *Turns

	mu       sync.Mutex // protects the fields below; held for operations on them only
	idle     map[Role][]*server
	lent     map[*fleet.Cluster]*server
	cleaning map[Role]int
	started  int           // so far
	starting int           // now
	changed  chan struct{} // closed when waiting callers should check again
}

var _ Lender = (*Pool)(nil)

// New returns a pool without servers. create starts a cluster of a new name.
func New(create func(ctx context.Context, name string) (*fleet.Cluster, error)) *Pool {
	return &Pool{
		create: create, turns: NewTurns(loadOfProcessor),
		idle: map[Role][]*server{}, lent: map[*fleet.Cluster]*server{}, cleaning: map[Role]int{},
	}
}

// Take waits for a clean cluster, or for its turn to start one: concurrent starts take as long as one after the other. A Hub has
// to wait while the machine is overloaded and others are lent.
func (p *Pool) Take(ctx context.Context, r Role) (*fleet.Cluster, error) {
	if r == Hub {
		p.turns.Await(ctx, p.lendsFewHubs)
	}
	for {
		s, name, wait := p.look(r)
		switch {
		case s != nil:
			return s.cluster, s.cluster.Resume()
		case wait == nil:
			return p.start(ctx, name, r)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (p *Pool) lendsFewHubs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	hubs := 0
	for _, s := range p.lent {
		if s.role == Hub {
			hubs++
		}
	}
	return hubs < 2*runtime.GOMAXPROCS(0)
}

// look returns a server, the name of one to start, or a channel to wait for.
func (p *Pool) look(r Role) (s *server, name string, wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if idle := p.idle[r]; len(idle) > 0 {
		last := len(idle) - 1
		p.idle[r], s = idle[:last], idle[last]
		p.lent[s.cluster] = s
		return s, "", nil
	}
	if p.cleaning[r] == 0 && p.starting < 2*runtime.GOMAXPROCS(0) {
		p.starting++
		p.started++
		return nil, fmt.Sprintf("pool-%s-%d", r, p.started), nil
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return nil, "", p.changed
}

func (p *Pool) start(ctx context.Context, name string, r Role) (*fleet.Cluster, error) {
	c, err := p.create(ctx, name)
	var s *server
	if err == nil {
		if s, err = newServer(ctx, c, r); err != nil {
			err = errors.Join(err, c.Kill())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	p.tellLocked()
	if err != nil {
		return nil, err
	}
	p.lent[c] = s
	return c, nil
}

// GiveBack cleans and freezes a cluster, or ends it and returns the error.
func (p *Pool) GiveBack(ctx context.Context, c *fleet.Cluster) error {
	p.mu.Lock()
	s, isLent := p.lent[c]
	delete(p.lent, c)
	if isLent {
		p.cleaning[s.role]++
	}
	p.mu.Unlock()
	if !isLent {
		return fmt.Errorf("the pool has not lent %s", c.Name())
	}
	err := c.Resume() // A frozen server cannot be cleaned.
	if err == nil {
		err = s.clean(ctx)
	}
	if err == nil {
		err = c.Pause() // An idle server uses a hundredth of a processor.
	}
	if err != nil {
		s.http.CloseIdleConnections()
		err = errors.Join(err, c.Kill())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleaning[s.role]--
	if err == nil {
		p.idle[s.role] = append(p.idle[s.role], s)
	}
	p.tellLocked()
	return err
}

// CloseIdleConnections ends silent connections to servers.
func (p *Pool) CloseIdleConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, idle := range p.idle {
		for _, s := range idle {
			s.http.CloseIdleConnections()
		}
	}
	for _, s := range p.lent {
		s.http.CloseIdleConnections()
	}
}

// tellLocked makes waiting callers look again.
func (p *Pool) tellLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}
