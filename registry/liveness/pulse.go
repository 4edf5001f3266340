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
type Pulse struct {
	once sync.Once

	mu          sync.Mutex    // protects the fields
	lastBeat    time.Time     // zero before the first one
	lastStarved time.Time     // the last time that a beat was late
	starved     time.Duration // by which all late beats were late
}

const (
	beatEvery = 100 * time.Millisecond
	lateBeat  = 400 * time.Millisecond
)

// NewPulse returns a pulse that does not beat yet.
func NewPulse() *Pulse { return &Pulse{} }

// Start makes the pulse beat until ctx ends. Later calls do nothing.
func (p *Pulse) Start(ctx context.Context) { p.once.Do(func() { go p.run(ctx) }) }

func (p *Pulse) run(ctx context.Context) {
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
	if late := p.lateness(now); late > 0 {
		p.starved += late
		p.lastStarved = now
	}
	p.lastBeat = now
}

// lateness returns by how much the next beat is late; 0 while it is in time.
func (p *Pulse) lateness(now time.Time) time.Duration {
	since := now.Sub(p.lastBeat)
	if p.lastBeat.IsZero() || since <= beatEvery+lateBeat {
		return 0
	}
	return since - beatEvery
}

// StarvedSince reports whether the process was starved at any time since then.
func (p *Pulse) StarvedSince(then time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lateness(time.Now()) > 0 || !p.lastStarved.IsZero() && !p.lastStarved.Before(then)
}

// Starved returns for how long the process was starved altogether since the pulse began to beat.
func (p *Pulse) Starved() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starved + p.lateness(time.Now())
}
