// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"sync"
	"time"
)

// Gate lets the runnables of an epoch's modules work, and ends their work while the epoch
// goes on: when another epoch takes its place, whose runnables wait for theirs, and before cleanup
// steps run. So there are never two sets of controllers of one remote at work.
type Gate struct {
	granted chan struct{} // closed when runnables may begin
	Open    func()
	Context context.Context //nolint:containedctx // ends when runnables must end
	end     context.CancelFunc

	mu     sync.Mutex // protects the fields below
	active int
	idle   chan struct{} // closed when nothing is active; nil while nobody waits
}

func NewGate(ctx context.Context) *Gate {
	p := &Gate{granted: make(chan struct{})}
	p.Open = sync.OnceFunc(func() { close(p.granted) })
	p.Context, p.end = context.WithCancel(ctx)
	return p
}

// run calls work when the permission is there, with a context that ends when the permission does.
// Work that ends after that has not failed, whatever it says.
func (p *Gate) run(ctx context.Context, work func(context.Context) error) error {
	select {
	case <-p.granted:
	case <-p.Context.Done():
		return nil
	case <-ctx.Done():
		return nil
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	return p.runEarly(ctx, work)
}

// runEarly calls work at once, with a context that ends when the permission does. By itself it is for what only
// prepares work.
func (p *Gate) runEarly(ctx context.Context, work func(context.Context) error) error {
	// Not when work returns: it may have left something in the manager's care that goes on.
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(p.Context, cancel)
	if err := work(ctx); p.Context.Err() == nil {
		return err
	}
	return nil
}

func (p *Gate) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Context.Err() != nil {
		return false
	}
	p.active++
	return true
}

func (p *Gate) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active--
	if p.active == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// Close ends the permission and returns when all work has ended, or after a time.
func (p *Gate) Close(atMost time.Duration) {
	p.mu.Lock()
	p.end()
	if p.active == 0 {
		p.mu.Unlock()
		return
	}
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	idle := p.idle
	p.mu.Unlock()
	patience := time.NewTimer(atMost)
	defer patience.Stop()
	select {
	case <-idle:
	case <-patience.C:
	}
}
