// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
)

// Beside is requested beside the health when the Connection meets the remote, so that the responses arrive together
// over a slow network. Its owner must use nothing of it unless the contact succeeds.
type Beside struct {
	// Questions may be nil.
	Questions *machine.Questions
	// Ask sends other requests, and returns when they have responses or ctx has ended; it may be nil. It is called in
	// its own goroutine at the first contact, and after a failure when a request first leaves on a new TCP connection,
	// and when the remote first reports its identity. ctx ends if the contact fails, which may be before the call.
	Ask func(ctx context.Context)
}

type early struct {
	questions  *machine.Questions
	credential string
	done       chan struct{}
	found      *machine.PreflightResult // read it after done
}

// contact requests the identity, and what is beside it once that request has left the hub. So all use one TCP
// connection with HTTP/2, and a remote that cannot be reached gets one connection and one request.
func (c *Connection) contact(ctx context.Context, outcome *Outcome, ask func()) error {
	ctx, cancel := context.WithCancel(ctx)
	var (
		once       sync.Once
		others     sync.WaitGroup
		version    string
		versionErr error
	)
	begin := func() {
		others.Go(func() { version, versionErr = readVersion(ctx, c.getJSON, c.redact) })
		ask()
	}
	id, err := c.identityWith(ctx, func(bool) { once.Do(begin) })
	if err == nil && id == "" {
		err = c.healthy(ctx)
	}
	if err == nil {
		once.Do(begin)
	} else {
		cancel()
		once.Do(func() {}) // A late call of net/http begins nothing.
	}
	others.Wait()
	cancel()
	if err != nil {
		return err
	}
	outcome.ID, outcome.Version, c.versioned = id, version, time.Now()
	return versionErr
}

// identityWith calls sent when the request has left, at least once if there is a response, with whether it was the
// first on a TCP connection.
func (c *Connection) identityWith(ctx context.Context, sent func(isNew bool)) (string, error) {
	var isNew atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { // by the goroutine of RoundTrip
			c.lastUsed = got.Conn
			isNew.Store(!got.Reused)
		},
		WroteHeaders: func() { sent(isNew.Load()) },
	})
	id, err := readIdentity(ctx, c.getJSON, c.redact)
	if err == nil {
		c.identifiedOn = c.lastUsed
	}
	return id, err
}

// meet is the first contact, or one after which the last outcome is forgotten.
func (c *Connection) meet(ctx context.Context, outcome *Outcome) error {
	var beside Beside
	if !c.met {
		beside, c.met = c.beside, true
	}
	ask, settle := c.asking(beside)
	err := c.contact(ctx, outcome, ask)
	settle(err)
	return err
}

// meetAgain follows a failed probe. An unreachable remote gets one request at a time, the others after its identity.
// Once in an outage they are sent beside it: with the first request on a new TCP connection, because the remote has
// most likely returned.
func (c *Connection) meetAgain(ctx context.Context, outcome *Outcome) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		once                  sync.Once
		others                sync.WaitGroup
		settle                func(error)
		healthErr, versionErr error
	)
	begin := func() {
		settle = c.askAgain()
		others.Go(func() {
			healthErr = healthyBy(func(path string) error {
				_, err := c.do(ctx, http.MethodGet, path, nil)
				return err
			})
		})
		others.Go(func() { outcome.Version, versionErr = readVersion(ctx, c.getJSON, c.redact) })
	}
	mayHurry := !c.hurried
	id, err := c.identityWith(ctx, func(isNew bool) {
		if isNew && mayHurry {
			once.Do(func() {
				c.hurried = true
				begin()
			})
		}
	})
	if err == nil {
		outcome.ID = id
		once.Do(begin)
	} else {
		cancel()
		once.Do(func() {}) // A late call of net/http begins nothing.
	}
	others.Wait()
	if err == nil {
		c.asked = true
		err = cmp.Or(healthErr, versionErr)
	}
	if settle != nil {
		settle(err)
	}
	if err == nil {
		c.versioned = time.Now()
	}
	return err
}

// askAgain sends the other requests after the identity at most once in an outage. settle must be called with the
// outcome.
func (c *Connection) askAgain() (settle func(error)) {
	var beside Beside
	if !c.asked {
		beside.Ask = c.beside.Ask
	}
	ask, settle := c.asking(beside)
	ask()
	return settle
}

// asking returns functions that send the requests of Beside, and that must be called with the outcome. The requests end
// if the contact has failed.
func (c *Connection) asking(b Beside) (ask func(), settle func(error)) {
	if b.Ask == nil && b.Questions == nil {
		return func() {}, func(error) {}
	}
	ctx, cancel := context.WithCancel(c.ctx)
	e := c.newEarly(b.Questions)
	ask = sync.OnceFunc(func() {
		c.loops.Go(func() {
			defer cancel()
			c.ask(ctx, b.Ask, e)
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

// newEarly returns nil without questions.
func (c *Connection) newEarly(q *machine.Questions) *early {
	if q == nil {
		return nil
	}
	e := &early{questions: q, credential: c.Credential(), done: make(chan struct{})}
	c.early.Store(e)
	return e
}

func (c *Connection) ask(ctx context.Context, other func(context.Context), e *early) {
	var all sync.WaitGroup
	defer all.Wait()
	if other != nil {
		all.Go(func() { other(ctx) })
	}
	if e != nil {
		all.Go(func() {
			defer close(e.done)
			e.found = c.sendPreflight(ctx, e.questions, nil)
		})
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
