// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// pulse notices when the hub itself is starved: its process was frozen, or does not get the
// processor in time. That a probe had no answer in such a time says nothing of the remote, the first time.
//
// It beats in a goroutine of its own and measures how late it is. A probe needs its goroutines to
// run several times before it can succeed, so a beat that is late by a part of a probe's timeout
// makes its failure meaningless.
type pulse struct {
	starvedUntil atomic.Int64 // monotonic nanoseconds since born: the last time that a beat was late
	lastBeat     atomic.Int64 // in the same measure; 0 before the first one
	born         time.Time
	once         sync.Once
}

const (
	beatEvery = 100 * time.Millisecond
	lateBeat  = 400 * time.Millisecond
)

func newPulse() *pulse {
	p := &pulse{born: time.Now()}
	p.starvedUntil.Store(-1)
	return p
}

// start makes the pulse beat until ctx ends. Later calls do nothing.
func (p *pulse) start(ctx context.Context) { p.once.Do(func() { go p.beat(ctx) }) }

// beat runs until ctx ends.
func (p *pulse) beat(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		if now.Sub(last) > beatEvery+lateBeat {
			p.starvedUntil.Store(int64(now.Sub(p.born)))
		}
		last = now
		p.lastBeat.Store(int64(now.Sub(p.born)))
	}
}

// starvedSince reports whether the hub was starved at any time since then.
func (p *pulse) starvedSince(then time.Time) bool {
	if beat := p.lastBeat.Load(); beat > 0 && time.Since(p.born)-time.Duration(beat) > beatEvery+lateBeat {
		return true // the next beat is late already
	}
	return p.starvedUntil.Load() >= int64(then.Sub(p.born))
}

// isOurs reports whether an error of a request is the hub's and not the remote's: it has no file
// descriptors, ports or buffers left to make a connection with.
func isOurs(err error) bool {
	for _, ours := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return false
}
