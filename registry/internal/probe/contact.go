// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
)

// Beside is requested beside the identity at the first contact, so that the responses arrive together over a slow
// network. Its owner must use nothing of it unless the contact succeeds.
type Beside struct {
	// Questions may be nil.
	Questions *machine.Questions
	// Ask sends other requests, and returns when they have responses or ctx has ended; it may be nil. It is called once,
	// in its own goroutine. ctx ends if the contact fails, which may be before the call.
	Ask func(ctx context.Context)
}

type early struct {
	questions  *machine.Questions
	credential string
	done       chan struct{}
	found      *machine.PreflightResult // read it after done
}

// contact requests the identity, and what is beside it: as soon as the identity's request has left the hub on a
// connection for which hurry is true, or else when the identity is known. So all use one TCP connection with HTTP/2, and
// a remote that cannot be reached gets one connection and one request.
func (c *Connection) contact(
	ctx context.Context, outcome *machine.Probed, hurry func(isNew bool) bool, beside ...func(context.Context) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		once   sync.Once
		others sync.WaitGroup
		errs   = make([]error, len(beside)+1)
	)
	begin := func() {
		others.Go(func() { outcome.Version, errs[len(beside)] = c.readVersion(ctx) })
		for i, f := range beside {
			others.Go(func() { errs[i] = f(ctx) })
		}
	}
	var isNew atomic.Bool
	id, err := c.readIdentity(httptrace.WithClientTrace(c.noting(ctx), &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { isNew.Store(!got.Reused) },
		WroteHeaders: func() {
			if hurry(isNew.Load()) {
				once.Do(begin)
			}
		},
	}))
	if err == nil {
		outcome.ID, c.identifiedOn = id, c.lastUsed
		once.Do(begin)
	} else {
		cancel()
		once.Do(func() {}) // A late call of net/http begins nothing.
	}
	others.Wait()
	if err = cmp.Or(err, cmp.Or(errs...)); err == nil {
		c.versioned = time.Now()
	}
	return err
}

// meet is the first contact, or one after which the last outcome is forgotten.
func (c *Connection) meet(ctx context.Context, outcome *machine.Probed) error {
	ask, settle := c.asking()
	err := c.contact(ctx, outcome, func(bool) bool { return true }, func(context.Context) error { ask(); return nil })
	if err == nil && outcome.ID == "" {
		err = c.healthy(c.noting(ctx))
	}
	settle(err)
	return err
}

// asking returns functions that send the requests of Beside, the first time, and that must be called with the outcome.
// The requests end if the contact has failed.
func (c *Connection) asking() (ask func(), settle func(error)) {
	other, q := c.beside.Ask, c.beside.Questions
	c.beside = Beside{}
	if other == nil && q == nil {
		return func() {}, func(error) {}
	}
	ctx, cancel := context.WithCancel(c.ctx)
	e := &early{questions: q, credential: c.Credential(), done: make(chan struct{})}
	c.early.Store(e)
	ask = sync.OnceFunc(func() {
		c.loops.Go(func() {
			defer cancel()
			var all sync.WaitGroup
			if other != nil {
				all.Go(func() { other(ctx) })
			}
			if q != nil {
				e.found = c.sendPreflight(ctx, q, nil)
			}
			close(e.done)
			all.Wait()
		})
	})
	return ask, func(err error) {
		if err != nil {
			cancel()
			c.early.Store(nil)
		}
		ask()
	}
}

// takeEarly returns the early preflight once, or nil without one for these questions and this credential.
func (c *Connection) takeEarly(ctx context.Context, q *machine.Questions) *machine.PreflightResult {
	e := c.early.Swap(nil)
	if e == nil || e.questions != q || e.credential != c.Credential() {
		return nil
	}
	select {
	case <-e.done:
		return e.found
	case <-ctx.Done():
		return nil
	}
}
