// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Start writes changed records until ctx ends, and then that no app is being started: those have not ended the process.
func (j *Journal) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			j.close(context.WithoutCancel(ctx))
			return nil
		case <-j.wake:
		case <-timer.C:
		}
		if j.pause() <= 0 {
			j.keep(ctx)
		}
		timer.Reset(j.pause())
	}
}

const idle = time.Hour // idle is how long the writer sleeps while there is nothing to write. A change of the records wakes it.

func (j *Journal) pause() time.Duration {
	j.mu.Lock()
	due := j.due
	j.mu.Unlock()
	if due.IsZero() {
		return idle
	}
	if due.Before(j.notBefore) {
		due = j.notBefore
	}
	return time.Until(due)
}

// round is an attempt to read what is to be taken, and to write what differs.
type round struct {
	done   chan struct{}
	err    error // read it after done
	writes bool
}

func newRound() *round { return &round{done: make(chan struct{})} }

func (j *Journal) keep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	j.mu.Lock()
	now, takes := j.next, j.takes
	j.next, j.due = newRound(), time.Time{}
	j.mu.Unlock()
	if now.err = j.read(ctx, takes); now.err == nil {
		j.write(ctx, now)
	}
	j.settle(now)
}

// read reads once for all takes.
func (j *Journal) read(ctx context.Context, takes []*take) error {
	if len(takes) == 0 {
		return nil
	}
	if err := j.readAll(ctx); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	ended := 0
	for _, t := range takes {
		ended += j.adopt(t)
		close(t.done)
	}
	j.takes = slices.DeleteFunc(slices.Clone(j.takes), func(t *take) bool { return slices.Contains(takes, t) })
	if ended > 0 {
		j.log.Info("A process of the hub did not end in good order; apps that were being started at three such ends in a row start alone",
			"starting", ended, "alone", j.suspects())
	}
	return nil
}

func (j *Journal) suspects() (n int) {
	for _, e := range j.records {
		if e.suspicion().Ends == SuspectAfter {
			n++
		}
	}
	return n
}

func (j *Journal) write(ctx context.Context, now *round) {
	j.mu.Lock()
	change := j.diff()
	j.mu.Unlock()
	if now.writes = len(change) > 0; now.writes {
		now.err = j.send(ctx, change)
	}
}

// settle schedules what is left to do, also the repair of a late write, and tells waiting callers.
func (j *Journal) settle(now *round) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count()
	if j.due.IsZero() && len(j.diff()) > 0 {
		j.wakeWithin(later)
	}
	before, failure := j.last.err, now.err
	pause := time.Duration(0)
	switch {
	case failure != nil:
		pause = journalRetry
		j.wakeWithin(pause)
	case now.writes:
		pause = journalSpacing
	}
	j.last, j.notBefore = now, time.Now().Add(pause)
	close(now.done)
	switch {
	case errors.Is(failure, context.Canceled): // by the end of the hub
	case failure != nil && j.over:
		j.log.Error(failure, "Failed to write the end of the hub to the start journal; the next hub counts it as an end of the current apps")
	case before == nil && failure != nil:
		j.log.Error(failure, "Failed to write the start journal; apps start without it")
	case before != nil && failure == nil:
		j.log.Info("The start journal is written again")
	}
}

// close records that no app is being started.
func (j *Journal) close(ctx context.Context) {
	j.mu.Lock()
	j.over = true
	for name := range j.names {
		j.update(name, 0, (*entry).end)
	}
	j.mu.Unlock()
	j.keep(ctx)
}
