// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"sync"
	"time"
)

// Pulse finds out that the process is starved: frozen, or without the processor in time. It beats in its own goroutine
// and measures how late each beat is. Working goroutines have to run several times to finish, so a beat that is late by
// a fraction of their deadline excuses a missed deadline.
//
// Starved adds up all lateness, so that short pauses count as a long one. Not counted are lateness below tolerance, and
// pauses in step with the beats, as of a CPU quota with a period of a tenth of a second: every goroutine then runs ten
// times a second, enough to ask for work.
type Pulse struct {
	mu         sync.Mutex    // protects the fields
	lastBeat   time.Time     // zero before the first one
	lastFrozen time.Time     // the last time that a beat was late by frozenFor or more
	starved    time.Duration // by which all late beats were late
}

const (
	beatEvery = 100 * time.Millisecond
	// tolerance is by how much a beat may be late without being counted.
	tolerance = 20 * time.Millisecond
	// frozenFor is by how much a beat is late that excuses a missed deadline of a few seconds.
	frozenFor = 400 * time.Millisecond
)

// NewPulse returns a pulse that does not beat yet.
func NewPulse() *Pulse { return &Pulse{} }

// Run makes the pulse beat until ctx ends. It waits only for the clock, so it needs no watch itself.
func (p *Pulse) Run(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		p.beat(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (p *Pulse) beat(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := p.lateness(now)
	p.starved += late
	if late >= frozenFor {
		p.lastFrozen = now
	}
	p.lastBeat = now
}

// lateness is 0 while the next beat is in time.
func (p *Pulse) lateness(now time.Time) time.Duration {
	since := now.Sub(p.lastBeat)
	if p.lastBeat.IsZero() || since <= beatEvery+tolerance {
		return 0
	}
	return since - beatEvery
}

// StarvedSince reports whether the process was starved for frozenFor or more at a stretch at any time since then.
func (p *Pulse) StarvedSince(then time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lateness(time.Now()) >= frozenFor || !p.lastFrozen.IsZero() && !p.lastFrozen.Before(then)
}

// Starved returns for how long in all, since the first beat.
func (p *Pulse) Starved() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starved + p.lateness(time.Now())
}
