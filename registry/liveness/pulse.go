// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"sync"
	"time"
)

// Pulse detects when the process is starved: it was frozen, or does not get the processor in time.
//
// It beats in a goroutine of its own and measures how late each beat is. Goroutines that work need to run
// several times before they are done, so a beat that is late by a part of their deadline makes a missed
// deadline meaningless.
//
// Starved adds up the lateness of all beats, so that many short pauses count as much as a long one. Only lateness below
// tolerance does not count, which any busy process has. A pause in step with the beats is not seen either, as of a CPU
// quota with a period of a tenth of a second: there every goroutine runs ten times a second, and a heartbeat needs less.
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

// Run makes the pulse beat until ctx ends. It waits for nothing but the clock, so nothing watches it.
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

// lateness returns by how much the next beat is late; 0 while it is in time.
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

// Starved returns for how long the process was starved altogether since the pulse began to beat.
func (p *Pulse) Starved() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starved + p.lateness(time.Now())
}
