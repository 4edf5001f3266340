// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
)

// Beside is what a Connection requests beside the health of the remote when it meets the remote, so that the responses arrive
// together over a slow network. Nothing of it is used unless the contact succeeds.
type Beside struct {
	// Questions are the questions of the first preflight; nil for none.
	Questions *preflight.Questions
	// Ask sends other requests, and returns when they have responses or ctx has ended. The Connection calls it, in a
	// goroutine of its own, at the first contact, and when the remote reports its identity for the first time after a
	// failure. ctx ends if the contact fails; it has ended before the call if the first contact fails before the requests
	// could be sent. Ask is nil if there are no other requests.
	Ask func(ctx context.Context)
}

// early is a preflight beside the first contact.
type early struct {
	questions  *preflight.Questions
	credential string
	done       chan struct{}
	found      *preflight.Result // read it after done
}

// contact requests the identity of the remote and, beside it, the version and what ask requests. It completes the outcome.
//
// The requests beside the identity are sent when the request for the identity has left the hub. So all of them use the same
// TCP connection if the server speaks HTTP/2, and a remote that cannot be reached gets one connection and one request.
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
	id, err := c.identityWith(ctx, func() { once.Do(begin) })
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

// identityWith requests the identity, and calls sent when the request has been sent, at least once if it gets a response.
func (c *Connection) identityWith(ctx context.Context, sent func()) (string, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(got httptrace.GotConnInfo) { c.lastUsed = got.Conn }, // by the goroutine of RoundTrip
		WroteHeaders: sent,
	})
	id, err := readIdentity(ctx, c.getJSON, c.redact)
	if err == nil {
		c.identifiedOn = c.lastUsed
	}
	return id, err
}

// meet is the first contact, or a contact after which the last outcome is forgotten.
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

// meetAgain is the rest of a contact after a probe that has failed, once the identity is known: an unreachable remote gets
// one request at a time.
func (c *Connection) meetAgain(ctx context.Context, outcome *Outcome) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside Beside
	if !c.asked {
		beside.Ask, c.asked = c.beside.Ask, true
	}
	ask, settle := c.asking(beside)
	ask()
	var (
		others     sync.WaitGroup
		versionErr error
	)
	others.Go(func() { outcome.Version, versionErr = readVersion(ctx, c.getJSON, c.redact) })
	err := c.healthy(ctx)
	if err != nil {
		cancel()
	}
	others.Wait()
	if err == nil {
		err = versionErr
	}
	c.asked = err != nil
	settle(err)
	return err
}

// asking returns a function that begins to send the requests of Beside, and a function that must be called with the outcome of
// the contact. The requests end if the contact has failed.
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

// newEarly returns the preflight beside the first contact, or nil without questions.
func (c *Connection) newEarly(q *preflight.Questions) *early {
	if q == nil {
		return nil
	}
	e := &early{questions: q, credential: c.Credential(), done: make(chan struct{})}
	c.early.Store(e)
	return e
}

// ask sends the requests beside the first contact and waits for their responses.
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

// takeEarly returns the result of the preflight beside the first contact, once, or nil if there is none with these
// questions and the credential in use.
func (c *Connection) takeEarly(ctx context.Context, q *preflight.Questions) *preflight.Result {
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
