// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Journal records which apps are being started, in a place that survives a crash of the hub. Damage of a module to
// the whole process cannot be contained; but the next process can read which apps were being started when the last
// process died, and start these with care (see state.CrashRecord).
//
// A journal prevents no start: an app whose Begin fails is started anyway.
type Journal interface {
	// Begin notes that the app of name is about to start. It returns when the note would survive a crash, or with an
	// error if the note was not written before ctx ended. The journal logs its failures for operators; the registry
	// logs the error of each app for debugging only.
	Begin(ctx context.Context, name ClusterName) error
	// End notes that the app has proven itself, or has ended in good order. It does not block.
	End(name ClusterName)
}

// journal keeps one entry of a Journal for each name: two epochs of one name, of which one replaces the other, share
// an entry.
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

// An app is no suspect after a crash of the hub if it was ready for provenAfter, or if it ran for provenUnreadyAfter
// while it waited for its initial objects. Otherwise a remote that never sends them would be a suspect whenever the
// hub is ended from outside.
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
		j.inner.End(name) // under the lock, and it does not block: a later entry must not be closed
	}
}

// record is one entry of a journal, from its opening to its closing.
type record struct {
	end   func()
	timer *time.Timer
}

func (r *record) open(end func()) { r.end = end }

// closeAfter closes the entry after a time, which replaces the time of an earlier call.
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
