// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
)

// rounds are the probes of a Connection, one at a time. A timer starts each one, so that there is no goroutine between two
// probes. The owner of a probe is the Connection, whose Close waits for it.
type rounds struct {
	report func(Outcome)
	probe  func(ctx context.Context, last Outcome) (Outcome, error)
	heard  func(net.Conn) time.Time // when bytes were last received on a connection
	work   sync.WaitGroup           // the probe under way

	mu        sync.Mutex // protects the fields below; held for no longer than a few assignments
	schedule  schedule
	pace      Pace
	attention Attention
	conn      net.Conn    // of the last request of the last probe
	timer     *time.Timer // starts the next probe; nil before the end of the first probe
	forget    bool        // the next probe reads the identity
	busy      bool        // a probe is under way
	closed    bool

	// The fields below belong to the probe under way.
	last    Outcome // zero for none
	excused int     // consecutive failures that were attributed to the hub
}

// Attention is how much the owner of a Connection depends on the outcomes of its probes.
type Attention int

const (
	// Steady means: probe at the pace, and report each outcome.
	Steady Attention = iota
	// Settled means: probe at the pace, and report an outcome that differs from the last one, or that includes the identity.
	Settled
	// Urgent means: probe every second, because the remote is not known to be healthy, and report each outcome.
	Urgent
)

// Start starts the probe. report is called with each outcome, from the goroutine of the probe; see Attention.
func (c *Connection) Start(report func(Outcome)) {
	c.shared.Beat()
	c.transport.Lost = c.Doubt
	c.rounds.report = report
	c.rounds.mu.Lock()
	defer c.rounds.mu.Unlock()
	if c.rounds.closed {
		return
	}
	c.rounds.busy = true
	c.rounds.work.Go(c.first)
}

// SetPace changes the pace of the probe, and the attention.
func (c *Connection) SetPace(p Pace, attention Attention) {
	r := &c.rounds
	r.mu.Lock()
	defer r.mu.Unlock()
	isSooner := p != r.pace || attention == Urgent && r.attention != Urgent
	if r.pace, r.attention = p, attention; isSooner {
		r.arm()
	}
}

// ProbeNow triggers a probe that also reads the identity.
func (c *Connection) ProbeNow() {
	r := &c.rounds
	r.mu.Lock()
	defer r.mu.Unlock()
	r.schedule.again, r.forget = true, true
	r.arm()
}

// Doubt triggers a probe if the last one is older than the period, because something suggests that the remote cannot be
// reached. It may be called at any rate.
func (c *Connection) Doubt() {
	r := &c.rounds
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.schedule.doubted {
		r.schedule.doubted = true
		r.arm()
	}
}

// due returns when the next probe is due. mu is held.
func (r *rounds) due() time.Time {
	return r.schedule.due(r.pace, r.attention == Urgent, r.heard(r.conn))
}

// arm sets the timer to the time at which the next probe is due, unless a probe is under way, which does so at its end. mu is
// held.
func (r *rounds) arm() {
	if !r.busy && !r.closed && r.timer != nil {
		r.timer.Reset(time.Until(r.due()))
	}
}

// end prevents further probes.
func (r *rounds) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
}

// begin reports whether a probe is due, and marks it as under way.
func (r *rounds) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.busy, r.closed:
		return false
	case time.Until(r.due()) > 0: // The API server was heard since the timer was set.
		r.arm()
		return false
	}
	r.take()
	r.busy = true
	r.work.Add(1)
	return true
}

// take resets what has caused the probe. mu is held.
func (r *rounds) take() {
	if r.forget {
		r.last = Outcome{}
	}
	r.forget, r.schedule.again, r.schedule.doubted = false, false, false
}

// first waits for its place in the queue of first contacts and probes the remote.
func (c *Connection) first() {
	release, err := c.shared.Contacts.Acquire(c.ctx, min(c.rank, startqueue.RankFailed))
	if err != nil {
		return
	}
	c.round(release)
}

// wake is called by the timer.
func (c *Connection) wake() {
	if c.rounds.begin() {
		defer c.rounds.work.Done()
		c.round(func() {})
	}
}

// round probes the remote, calls release, and sets the timer of the next probe. After the end of the Connection there is none.
func (c *Connection) round(release func()) {
	r, began := &c.rounds, time.Now()
	outcome, err := r.probe(c.ctx, r.last)
	release()
	if c.ctx.Err() != nil {
		return
	}
	c.count(outcome, time.Since(began))
	again := false
	switch {
	case c.isDelayedByApp(err, began):
	case c.isHubFault(err, began) && r.excused < maxExcused:
		r.excused++
		again = true
	default:
		if r.isNews(outcome, !c.identified.Before(began)) {
			r.report(outcome)
		}
		r.last = outcome
	}
	if err == nil {
		r.excused = 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.schedule.began, r.schedule.last, r.schedule.ok, r.schedule.spread = began, time.Now(), err == nil, rand.Float64()
	r.schedule.again = r.schedule.again || again
	r.busy, r.conn = false, c.lastUsed
	if r.timer == nil {
		r.timer = time.AfterFunc(maxRest, c.wake)
	}
	r.arm()
}

// isNews reports whether the owner has to know an outcome.
func (r *rounds) isNews(outcome Outcome, identified bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attention != Settled || outcome != r.last || identified
}

// count records the metrics of a probe, also of a probe that failed because of the hub.
func (c *Connection) count(outcome Outcome, took time.Duration) {
	c.shared.Metrics.ObserveProbe(c.cluster, outcome.Reason, took)
}

// maxExcused is how many consecutive failures are attributed to the hub. A hub that is always short of CPU time must
// still detect in time that a remote is gone.
const maxExcused = 1

// isHubFault reports whether the hub caused the failure of a probe, so that the failure does not describe the remote:
// there was no response while the hub was starved, or the hub had no resources to send the request.
func (c *Connection) isHubFault(err error, began time.Time) bool {
	return err != nil && (isHubError(err) || errors.Is(err, context.DeadlineExceeded) && c.shared.Starved(began))
}

// isDelayedByApp reports whether a probe timed out because its response waits, on the same TCP connection, behind a
// response to an app. Over a slow network a list may take minutes.
func (c *Connection) isDelayedByApp(err error, began time.Time) bool {
	return errors.Is(err, context.DeadlineExceeded) && c.lastReceived.Load() > began.UnixNano()
}
