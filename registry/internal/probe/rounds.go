// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
)

// rounds are the probes of a Connection, one at a time. A timer starts each, so that there is no goroutine between two.
// Close waits for a probe.
type rounds struct {
	report func(machine.Probed)
	probe  func(ctx context.Context, last machine.Probed) (machine.Probed, error)
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

	// Those below belong to the probe under way.
	last    machine.Probed // zero for none
	excused int            // consecutive failures that were attributed to the hub
}

// Attention is how much the owner depends on outcomes.
type Attention int

// How a probe is paced, and what is reported.
const (
	// Steady: probe at the pace, report each outcome.
	Steady Attention = iota
	// Settled: probe at the pace, report outcomes that differ from the last, or include the identity.
	Settled
	// Urgent: probe every second, since the remote may not be healthy, and report each outcome.
	Urgent
)

// Start starts the probe. report gets each outcome, in the probe's goroutine; see Attention.
func (c *Connection) Start(report func(machine.Probed)) {
	c.Transport.Lost = c.Doubt
	c.rounds.report = report
	c.rounds.mu.Lock()
	defer c.rounds.mu.Unlock()
	if c.rounds.closed {
		return
	}
	c.rounds.busy = true
	c.rounds.work.Go(c.first)
}

// SetPace changes the pace and the attention.
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

// Doubt triggers a probe if the last one is older than the period. It may be called at any rate.
func (c *Connection) Doubt() {
	r := &c.rounds
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.schedule.doubted {
		r.schedule.doubted = true
		r.arm()
	}
}

// due needs mu.
func (r *rounds) due() time.Time {
	return r.schedule.due(r.pace, r.attention == Urgent, r.heard(r.conn))
}

// arm sets the timer, unless a probe is under way, which does so at its end. It needs mu.
func (r *rounds) arm() {
	if !r.busy && !r.closed && r.timer != nil {
		r.timer.Reset(time.Until(r.due()))
	}
}

func (r *rounds) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
}

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

// take resets what has caused the probe. It needs mu.
func (r *rounds) take() {
	if r.forget {
		r.last = machine.Probed{}
	}
	r.forget, r.schedule.again, r.schedule.doubted = false, false, false
}

// first waits for a place in the queue of first contacts.
func (c *Connection) first() {
	release, err := c.shared.Contacts.Acquire(c.ctx, min(c.rank, startqueue.RankFailed))
	if err != nil {
		return
	}
	c.round(release)
}

func (c *Connection) wake() {
	if c.rounds.begin() {
		defer c.rounds.work.Done()
		c.round(func() {})
	}
}

// round probes, calls release, and sets the next timer, unless the Connection has ended.
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

func (r *rounds) isNews(outcome machine.Probed, identified bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attention != Settled || outcome != r.last || identified
}

// count includes probes that failed because of the hub.
func (c *Connection) count(outcome machine.Probed, took time.Duration) {
	c.shared.Metrics.ObserveProbe(c.cluster, outcome.Failed.Reason, took)
}

// maxExcused consecutive failures are the hub's. One that is always short of CPU time must still find that a remote is
// gone.
const maxExcused = 1

// isHubFault: no response while the hub was starved.
func (c *Connection) isHubFault(err error, began time.Time) bool {
	return errors.Is(err, context.DeadlineExceeded) && c.shared.Starved(began)
}

// isDelayedByApp: the response waits on its TCP connection behind one to an app. Over a slow network a list may take
// minutes.
func (c *Connection) isDelayedByApp(err error, began time.Time) bool {
	return errors.Is(err, context.DeadlineExceeded) && c.LastReceived.Load() > began.UnixNano()
}
