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

// role says what an API server is for. Those of hubs have the CRD of Clusters.
type role string

const (
	hubRole    role = "hub"
	remoteRole role = "remote"
)

// pool holds the API servers that no test has. The zero value is ready for use.
type pool struct {
	mu       sync.Mutex // protects the fields below; held for operations on them only
	idle     map[role][]*machine
	started  int           // so far
	starting int           // now
	changed  chan struct{} // closed when somebody who waits should look again
}

// take returns a server that nobody else has and that is as if it were new. If there is none, it starts
// one, or takes one that comes back before it is its turn to start one: servers that all start at once
// take as long as if they had done so one after the other.
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

// look returns a server, or the name of one to start, or what to wait for.
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

// endStart lets the next one start a server.
func (p *pool) endStart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	p.tellLocked()
}

// giveBack cleans a server for the next test. It ends one that cannot be cleaned, and returns why.
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

// tellLocked makes those who wait look again.
func (p *pool) tellLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}
