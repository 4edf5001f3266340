// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Journal keeps on record, where a crash of the hub does not reach, which apps are being started.
// What a module does to the whole process cannot be contained; but the next process can read who
// was being started when the last one died, and be careful with those (see Suspicion).
//
// A journal is no guard: an app whose Begin fails is started all the same.
type Journal interface {
	// Begin notes that the app of name is about to start. It returns when the note would survive a
	// crash, and with an error when that cannot be had before ctx ends. The journal logs its failures
	// for operators; the registry logs the error of each app for debugging only.
	Begin(ctx context.Context, name ClusterName) error
	// End notes that the app has proven itself, or has ended in good order. It does not block.
	End(name ClusterName)
}

// journal tells a Journal of apps by their names: two epochs of one name, of which one takes the
// place of the other, are one entry.
type journal struct {
	inner Journal

	mu   sync.Mutex // protects open
	open map[ClusterName]int
}

func newJournal(inner Journal) *journal {
	return &journal{inner: inner, open: map[ClusterName]int{}}
}

// begin notes that an app is about to start. The caller calls end when it has proven itself or has
// ended; calling it twice does no harm.
func (j *journal) begin(ctx context.Context, name ClusterName, log logr.Logger) (end func()) {
	if j.inner == nil {
		return func() {}
	}
	j.mu.Lock()
	j.open[name]++
	j.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, journalPatience)
	defer cancel()
	if err := j.inner.Begin(ctx, name); err != nil {
		// V(1): a journal that cannot be written logs its error once, and each start gets the same error.
		log.V(1).Info("The app starts without an entry in the journal", "error", err.Error())
	}
	return sync.OnceFunc(func() { j.end(name) })
}

// journalPatience is how long a start waits for its entry in the journal.
const journalPatience = 3 * time.Second

// How long an app must have been ready for a crash of the hub not to be blamed on it, and how long it
// must have run while it waits for its initial objects. A remote that never sends them would otherwise
// be blamed for whatever ends the hub from outside.
const (
	provenAfter        = 3 * time.Second
	provenUnreadyAfter = 30 * time.Second
)

func (j *journal) end(name ClusterName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[name]--
	if j.open[name] == 0 {
		delete(j.open, name)
		j.inner.End(name) // under the lock, which it does not keep: a later entry must not be closed
	}
}

// record is one entry of a journal, from its opening to its closing.
type record struct {
	end   func()
	timer *time.Timer
}

func (r *record) open(end func()) { r.end = end }

// closeAfter closes the entry after a time, and not when an earlier call said.
func (r *record) closeAfter(d time.Duration) {
	if r.timer != nil {
		r.timer.Stop()
	}
	r.timer = time.AfterFunc(d, r.end)
}

// close closes the entry now, if it was opened.
func (r *record) close() {
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.end != nil {
		r.end()
	}
}
