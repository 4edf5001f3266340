// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"sync"
	"time"
)

// Gate lets the runnables of modules work, and ends their work while the epoch continues: before another epoch's
// runnables work, and before cleanup steps run. So no remote has two sets of controllers at work.
type Gate struct {
	granted chan struct{} // closed when runnables may begin
	Open    func()
	Context context.Context //nolint:containedctx // ends when runnables must end
	end     context.CancelFunc
	epoch   context.Context //nolint:containedctx // the epoch's, which ends before Context does

	mu     sync.Mutex // held to enter and to end
	active sync.WaitGroup
}

// NewGate returns a closed gate of an epoch that ends with ctx.
func NewGate(ctx context.Context) *Gate {
	p := &Gate{granted: make(chan struct{}), epoch: ctx}
	p.Open = sync.OnceFunc(func() { close(p.granted) })
	p.Context, p.end = context.WithCancel(ctx)
	return p
}

// Ended reports whether the gate has closed or the epoch has ended. The end reaches the derived contexts one by one,
// and may end a request before Context; Ended knows from the first one on.
func (p *Gate) Ended() bool { return p.epoch.Err() != nil || p.Context.Err() != nil }

// run calls work while the gate is open. Work that ends after that has not failed, whatever it returns.
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
	defer p.active.Done()
	return p.runEarly(ctx, work)
}

// runEarly is for preparations: it calls work at once, with a context that ends when the gate closes.
func (p *Gate) runEarly(ctx context.Context, work func(context.Context) error) error {
	// The context outlives the return of work, which may have handed something to the manager.
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
	p.active.Add(1)
	return true
}

// Close closes the gate, and returns when all work has ended, or after a time.
func (p *Gate) Close(atMost time.Duration) {
	p.mu.Lock()
	p.end()
	p.mu.Unlock() // From here on, nothing enters.
	idle := make(chan struct{})
	go func() {
		p.active.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-time.After(atMost):
	}
}
