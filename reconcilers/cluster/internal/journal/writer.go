// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"context"
	"errors"
	"maps"
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
	unread := j.load(trying)
	writes := j.pending()
	err := unread
	if unread == nil {
		err = each(writes, func(w *write) error {
			err := w.store.write(trying, w.records)
			if errors.Is(err, errOvertaken) { // This hub is the leader, so its records win.
				err = w.store.write(trying, w.records)
			}
			return err
		})
	}
	if ctx.Err() == nil {
		j.tell(j.settle(writes, unread), err)
	}
}

func each(writes []*write, f func(*write) error) error {
	var group sync.WaitGroup
	for _, w := range writes {
		group.Go(func() { w.err = f(w) })
	}
	group.Wait()
	var errs []error
	for _, w := range writes {
		errs = append(errs, w.err)
	}
	return errors.Join(errs...)
}

func (j *Journal) load(ctx context.Context) error {
	if j.loaded {
		return nil
	}
	found, errs := make([]records, len(j.parts)), make([]error, len(j.parts))
	var reads sync.WaitGroup
	for i, p := range j.parts {
		reads.Go(func() { found[i], errs[i] = p.store.read(ctx) })
	}
	reads.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	j.loaded = true
	j.takeOver(found, time.Now())
	return nil
}

func (j *Journal) takeOver(inParts []records, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	started, suspects := 0, 0
	for _, all := range inParts {
		for name, e := range all {
			j.records.adopt(name, e, now)
			if e.Starting != 0 {
				started++
			}
		}
	}
	for _, e := range j.records {
		if e.suspicion().Ends == SuspectAfter {
			suspects++
		}
	}
	for i, p := range j.parts {
		wanted := j.recordsOf(p)
		p.entries = len(wanted)
		if !maps.Equal(wanted, inParts[i]) {
			p.changes++
			j.wakeWithin(0)
		}
	}
	if started > 0 {
		j.log.Info("The last process did not end in good order; apps that were being started at three such ends in a row start alone",
			"starting", started, "alone", suspects)
	}
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
			w.kept, w.failure = w.change, nil
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
	if j.failure == nil && !slices.ContainsFunc(j.parts, (*part).isChanged) {
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

// close records that no app is being started, once: another process may write since, if this one has lost its lease.
func (j *Journal) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	j.mu.Lock()
	j.over = true
	for _, name := range slices.Collect(maps.Keys(j.records)) {
		j.update(name, 0, func() { j.records.end(name) })
	}
	j.mu.Unlock()
	writes := j.pending()
	var err error
	if !j.loaded {
		j.unread = cmp.Or(j.unread, errJournalOver)
	} else {
		err = each(writes, func(w *write) error { return w.store.write(ctx, w.records) })
	}
	if err != nil {
		j.log.Error(err, "Failed to write the end of the hub to the start journal; the next hub counts it as an end of the current apps")
	}
	_ = j.settle(writes, j.unread) // It wakes the callers that wait.
}
