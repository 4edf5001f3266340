// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/registry/state"
)

// entries is a registry.Journal, whose contract says what these methods do.
type entries interface {
	Begin(ctx context.Context, name state.ClusterName, alone bool) error
	End(name state.ClusterName)
}

// Journal shares one entry among two epochs of one name, of which one replaces the other.
type Journal struct {
	inner entries

	mu   sync.Mutex // protects open
	open map[state.ClusterName]int
}

// NewJournal returns a Journal with the entries in inner; nil records nothing.
func NewJournal(inner entries) *Journal {
	return &Journal{inner: inner, open: map[state.ClusterName]int{}}
}

// begin is followed by end when the app has proven itself or has ended; calling end twice does no harm.
func (j *Journal) begin(ctx context.Context, name state.ClusterName, alone bool, log logr.Logger) (end func()) {
	if j.inner == nil {
		return func() {}
	}
	j.mu.Lock()
	j.open[name]++
	j.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, journalPatience)
	defer cancel()
	if err := j.inner.Begin(ctx, name, alone); err != nil {
		// V(1): the journal logs its error once itself, and each start gets the same error.
		log.V(1).Info("The app starts without an entry in the journal", "error", err.Error())
	}
	return sync.OnceFunc(func() { j.end(name) })
}

// journalPatience is how long a start waits for its entry in the journal.
const journalPatience = 3 * time.Second

// An app is no suspect after a crash if it was ready for provenAfter, or waited for its initial objects for
// provenUnreadyAfter. Otherwise a remote that never sends them would be a suspect whenever the hub is ended from
// outside.
const (
	provenAfter        = 3 * time.Second
	provenUnreadyAfter = 30 * time.Second
)

func (j *Journal) end(name state.ClusterName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[name]--
	if j.open[name] == 0 {
		delete(j.open, name)
		j.inner.End(name) // under the lock, and it does not block: a later entry must not be closed
	}
}

type record struct {
	end   func()
	timer *time.Timer
}

// closeAfter replaces the time of an earlier call.
func (r *record) closeAfter(d time.Duration) {
	if r.timer != nil {
		r.timer.Stop()
	}
	r.timer = time.AfterFunc(d, r.end)
}

func (r *record) close() {
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.end != nil {
		r.end()
	}
}
