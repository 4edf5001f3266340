// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// role is the purpose of an API server. The servers of hubs have the CRD of Clusters.
type role string

const (
	hubRole    role = "hub"
	remoteRole role = "remote"
)

// pool holds the API servers that no test uses. The zero value is ready for use.
type pool struct {
	mu       sync.Mutex // protects the fields below; held for operations on them only
	idle     map[role][]*machine
	started  int           // so far
	starting int           // now
	changed  chan struct{} // closed when waiting callers should check again
}

// take returns a clean server that no other test uses. If there is none, it waits for its turn and starts a server,
// unless another test gives a server back first: concurrent starts take as long as starts one after the other.
func (p *pool) take(ctx context.Context, f *fleet.Fleet, r role) (*machine, error) {
	for {
		m, name, wait := p.look(r)
		switch {
		case m != nil:
			return m, nil
		case wait == nil:
			defer p.endStart()
			return start(ctx, f, name, r)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// look returns a server, or the name of a server to start, or a channel to wait for.
func (p *pool) look(r role) (m *machine, name string, wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if idle := p.idle[r]; len(idle) > 0 {
		last := len(idle) - 1
		p.idle[r] = idle[:last]
		return idle[last], "", nil
	}
	if p.starting < 2*runtime.GOMAXPROCS(0) {
		p.starting++
		p.started++
		return nil, fmt.Sprintf("hubtest-%s-%d", r, p.started), nil
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return nil, "", p.changed
}

func start(ctx context.Context, f *fleet.Fleet, name string, r role) (*machine, error) {
	c, err := f.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	m, err := newMachine(ctx, c, r)
	if err != nil {
		return nil, errors.Join(err, c.Kill())
	}
	return m, nil
}

// endStart permits the next start of a server.
func (p *pool) endStart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	p.tellLocked()
}

// giveBack cleans a server for the next test. If the server cannot be cleaned, giveBack stops it and returns the error.
func (p *pool) giveBack(ctx context.Context, m *machine) error {
	if err := m.clean(ctx); err != nil {
		m.http.CloseIdleConnections()
		return errors.Join(err, m.cluster.Kill())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		p.idle = map[role][]*machine{}
	}
	p.idle[m.role] = append(p.idle[m.role], m)
	p.tellLocked()
	return nil
}

// tellLocked makes the waiting callers check again.
func (p *pool) tellLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}
