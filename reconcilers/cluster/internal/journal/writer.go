// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"sync"
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

func (j *Journal) keep(ctx context.Context) {
	trying, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	err := j.read(trying)
	unread := err
	writes := j.pending()
	if unread == nil {
		err = writeAll(trying, writes)
	}
	if ctx.Err() == nil {
		j.tell(j.settle(writes, unread), err)
	}
}

// each calls f for all of them at once.
func each[T any](all []T, f func(T) error) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, one := range all {
		group.Go(func() { errs[i] = f(one) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// read reads all parts, once for all takes that wait.
func (j *Journal) read(ctx context.Context) error {
	j.mu.Lock()
	takes := slices.Clone(j.takes)
	j.mu.Unlock()
	if len(takes) == 0 {
		return nil
	}
	if err := each(j.parts, func(p *part) error { return p.read(ctx) }); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	ended := 0
	for _, t := range takes {
		ended += j.adopt(t)
		close(t.done)
	}
	j.takes = slices.DeleteFunc(j.takes, func(t *take) bool { return slices.Contains(takes, t) })
	if ended > 0 {
		j.log.Info("A process of the hub did not end in good order; apps that were being started at three such ends in a row start alone",
			"starting", ended, "alone", j.suspects())
	}
	return nil
}

func (j *Journal) suspects() (n int) {
	for _, p := range j.parts {
		for _, e := range p.records {
			if e.suspicion().Ends == SuspectAfter {
				n++
			}
		}
	}
	return n
}

// write is a write of a part: what differs, as of a change of its records.
type write struct {
	*part
	number int64
	change map[string]any
	err    error
}

func (j *Journal) pending() []*write {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []*write
	for _, p := range j.parts {
		if p.isChanged() {
			all = append(all, &write{part: p, number: p.changes, change: j.diff(p)})
		}
	}
	return all
}

func writeAll(ctx context.Context, all []*write) error {
	return each(all, func(w *write) error {
		if len(w.change) > 0 {
			w.err = w.part.write(ctx, w.change)
		}
		return w.err
	})
}

// settle tells waiting callers; unread is the error of the read, without which the writes were tried. It returns the last error.
func (j *Journal) settle(writes []*write, unread error) (before error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	before, j.failure, j.unread = j.failure, unread, unread
	for _, w := range writes {
		switch {
		case unread != nil:
		case w.err == nil:
			w.kept, w.failure = w.number, nil
			j.check(w.part)
		default:
			w.failure, j.failure = w.err, errors.Join(j.failure, w.err)
		}
	}
	if unread == nil && len(writes) > 0 {
		j.away = nil
		if !slices.ContainsFunc(writes, hasResponse) {
			j.away = j.failure
		}
	}
	pause := journalSpacing
	if j.failure != nil {
		pause = journalRetry
	}
	j.notBefore = time.Now().Add(pause)
	if j.failure == nil && len(j.takes) == 0 && !slices.ContainsFunc(j.parts, (*part).isChanged) {
		j.due = time.Time{}
	}
	close(j.turn)
	j.turn = make(chan struct{})
	select {
	case <-j.ready:
	default:
		close(j.ready)
	}
	return before
}

func hasResponse(w *write) bool {
	var unsent *url.Error
	return !errors.As(w.err, &unsent)
}

func (j *Journal) tell(before, now error) {
	switch {
	case before == nil && now != nil:
		j.log.Error(now, "Failed to write the start journal; apps start without it")
	case before != nil && now == nil:
		j.log.Info("The start journal is written again")
	}
}

// close records that no app is being started.
func (j *Journal) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	j.mu.Lock()
	j.over = true
	unread := j.unread
	if len(j.takes) > 0 { // Nothing is known of the records.
		unread = cmp.Or(unread, errJournalOver)
	}
	for name := range j.names {
		j.update(name, 0, (*entry).end)
	}
	j.mu.Unlock()
	writes := j.pending()
	var err error
	if unread == nil {
		err = writeAll(ctx, writes)
	}
	if err != nil {
		j.log.Error(err, "Failed to write the end of the hub to the start journal; the next hub counts it as an end of the current apps")
	}
	_ = j.settle(writes, unread) // It wakes the callers that wait.
}
