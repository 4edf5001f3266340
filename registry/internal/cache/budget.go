// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/state"
)

// budget limits the objects in the cache of one app. The limit is soft, by a hundredth. Objects count when they arrive,
// before they are stored, so that the initial list of a huge remote ends before memory runs out. No event says that an
// object has left memory, so the sum is an upper bound; when it reaches the limit, all stores are measured. So an app
// far below its limit pays a few additions per object.
type budget struct {
	options Options

	ended chan struct{} // closed when the cache ends, which may be long after the epoch was fenced

	exact     atomic.Bool // measurements are of each stored object, and not of a sample
	measuring sync.Mutex  // one measurement at a time; held while stores are read

	mu         sync.Mutex // protects the fields; held for a few instructions
	sum        Amount     // an upper bound of the objects in the stores
	above      Amount     // measure again above it
	dirty      bool       // a refresh is due
	informers  []*Informer
	handlers   map[*handler]bool   // that have an Owner
	watchers   map[string][]string // by kind, the modules that watch it, sorted
	timer      *time.Timer
	staleTimer *time.Timer // fires when an informer may become stale or recover
}

// Intervals of the measurements for metrics. There is one only after a change, and soon after the first objects of a kind.
const (
	firstRefresh = 2 * time.Second
	refreshEvery = 30 * time.Second
)

func newBudget(o Options) *budget {
	if o.Unstreamed == nil {
		o.Unstreamed = &Unstreamed{}
	}
	b := &budget{
		options:  o,
		above:    Amount{o.Limits.MaxObjects, o.Limits.MaxBytes},
		handlers: map[*handler]bool{},
		watchers: map[string][]string{},
		ended:    make(chan struct{}),
	}
	b.timer = time.AfterFunc(refreshEvery, b.refresh)
	b.timer.Stop()
	b.staleTimer = time.AfterFunc(refreshEvery, b.checkStale)
	b.staleTimer.Stop()
	context.AfterFunc(o.Context, b.end)
	return b
}

// end also ends informers that never ran.
func (b *budget) end() {
	b.mu.Lock()
	b.timer.Stop()
	b.staleTimer.Stop()
	all := slices.Clone(b.informers)
	b.mu.Unlock()
	for _, one := range all {
		one.Stop()
	}
}

// NoteWatcher lets errors name the module whose objects are too many.
func (b *budget) NoteWatcher(kind, module string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i, found := slices.BinarySearch(b.watchers[kind], module); !found {
		b.watchers[kind] = slices.Insert(b.watchers[kind], i, module)
	}
}

func (b *budget) add(i *Informer) {
	b.mu.Lock()
	b.informers = append(b.informers, i)
	b.mu.Unlock()
	if b.options.Context.Err() != nil {
		i.Stop() // It may be too late for end.
	}
}

func (b *budget) handles(h *handler, added bool) {
	if h.owner == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if added {
		b.handlers[h] = true
	} else {
		delete(b.handlers, h)
	}
}

// findStuck finds handlers that do not return: two checks find the same call, more than Limits.Handling apart. It is
// called after objects have arrived, so that more events wait. It takes no lock of an informer, whose indexer may hang.
func (b *budget) findStuck(now time.Time) {
	b.mu.Lock()
	all := slices.Collect(maps.Keys(b.handlers))
	b.mu.Unlock()
	for _, h := range all {
		if h.stuckFor(now) > b.options.Limits.Handling {
			h.owner.Stuck(b.options.Limits.Handling, b.options.Goroutines())
		}
	}
}

// spend does not return before the end of the cache if objects are too many: nothing more may enter while the app takes
// its time to end.
func (b *budget) spend(arrived Amount) {
	if !b.exceeds(arrived) {
		return
	}
	if over := b.remeasure(); over != nil {
		b.options.Fail(over)
		<-b.ended
	}
}

func (b *budget) exceeds(arrived Amount) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.dirty {
		b.dirty = true
		b.schedule()
	}
	b.sum = b.sum.plus(arrived)
	return b.sum.Objects > b.above.Objects || b.sum.Bytes > b.above.Bytes
}

// isLarge: each further object is estimated.
func (b *budget) isLarge() bool {
	return b.options.Meter.Taken.Load() > b.options.Limits.MaxBytes/meter.Growth
}

func (b *budget) remeasure() error {
	b.measuring.Lock()
	defer b.measuring.Unlock()
	if !b.exceeds(Amount{}) {
		return nil // another goroutine has measured meanwhile
	}
	sum, most := b.measure(), b.options.Limits
	b.mu.Lock()
	b.sum = sum
	b.above = Amount{max(most.MaxObjects, sum.Objects+most.MaxObjects/100), max(most.MaxBytes, sum.Bytes+most.MaxBytes/100)}
	b.reset(remeasureAfter)
	b.mu.Unlock()
	return b.exceeded(sum)
}

// remeasureAfter: a measurement lacks objects that have arrived and are not stored yet.
const remeasureAfter = time.Second

// reset needs the lock.
func (b *budget) reset(after time.Duration) {
	if b.options.Context.Err() == nil {
		b.timer.Reset(after)
	}
}

func (b *budget) exceeded(sum Amount) error {
	switch {
	case sum.Objects > b.options.Limits.MaxObjects:
		return b.overBudget(fmt.Sprintf("%d objects", b.options.Limits.MaxObjects), state.ProblemTooManyObjects,
			func(t Amount) int64 { return t.Objects })
	case sum.Bytes > b.options.Limits.MaxBytes:
		return b.overBudget(fmt.Sprintf("%d MiB", b.options.Limits.MaxBytes>>20), state.ProblemTooManyBytes,
			func(t Amount) int64 { return t.Bytes })
	}
	return nil
}

// Amount is a number of objects and their estimated size.
type Amount struct{ Objects, Bytes int64 }

func (t Amount) plus(u Amount) Amount { return Amount{t.Objects + u.Objects, t.Bytes + u.Bytes} }

func (b *budget) measure() Amount {
	var sum Amount
	for _, s := range b.inUse() {
		sum = sum.plus(s.measure())
	}
	return sum
}

// Measure has the next Held be about each object of now, and later ones about each object, too.
func (b *budget) Measure() {
	b.exact.Store(true)
	b.measuring.Lock()
	defer b.measuring.Unlock()
	b.measure()
}

func (b *budget) inUse() []*Informer {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.informers = slices.DeleteFunc(b.informers, func(s *Informer) bool { return s.IsStopped() })
	return slices.Clone(b.informers)
}

// Held returns the amounts of the last measurement by kind.
func (b *budget) Held() map[string]Amount {
	b.mu.Lock()
	defer b.mu.Unlock()
	kinds := map[string]Amount{}
	for _, s := range b.informers {
		if last := s.measured.Load(); last != nil {
			kinds[s.kind] = kinds[s.kind].plus(*last)
		}
	}
	return kinds
}

// overBudget returns a text that stays the same as long as the problem does.
func (b *budget) overBudget(limit string, kind state.ProblemKind, amount func(Amount) int64) error {
	over := &OverBudgetError{Problem: state.Problem{Kind: kind}, text: "the cache would hold more than " + limit}
	kinds := b.Held()
	if len(kinds) == 0 { // the informer of the list has stopped in the meantime
		return over
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(kinds)), func(x, y string) int {
		return cmp.Compare(amount(kinds[x]), amount(kinds[y]))
	})
	b.mu.Lock()
	watchers := slices.Clone(b.watchers[most])
	b.mu.Unlock()
	over.text += fmt.Sprintf(", most of them %s (about %d of %d KiB each)",
		most, roughly(kinds[most].Objects), roughly(kinds[most].Bytes/max(kinds[most].Objects, 1)/1024+1))
	if len(watchers) > 1 {
		over.text += ", watched by " + strings.Join(watchers, ", ")
	}
	if len(watchers) > 0 {
		over.Module = watchers[0]
	}
	return over
}

// OverBudgetError is the error of an app whose cache exceeds its budget.
type OverBudgetError struct {
	// Module watches the most numerous objects; empty if unknown.
	Module  string
	Problem state.Problem

	text string
}

// Error names the limit that is exceeded and the most numerous objects.
func (e *OverBudgetError) Error() string { return e.text }

// roughly rounds to the first digit.
func roughly(n int64) int64 {
	unit := int64(1)
	for n/unit >= 10 {
		unit *= 10
	}
	return n / unit * unit
}

// schedule needs the lock.
func (b *budget) schedule() {
	after := refreshEvery
	if slices.ContainsFunc(b.informers, func(s *Informer) bool { return s.measured.Load() == nil }) {
		after = firstRefresh
	}
	b.reset(min(after, b.options.Limits.Handling))
}

// refresh runs in a goroutine of its own: if an indexer of a module hangs, no scrape of the metrics waits for it.
func (b *budget) refresh() {
	if b.options.Context.Err() != nil {
		return
	}
	b.mu.Lock()
	b.dirty = false
	b.mu.Unlock()
	b.findStuck(time.Now())
	b.measuring.Lock()
	defer b.measuring.Unlock()
	if over := b.exceeded(b.measure()); over != nil {
		b.options.Fail(over)
	}
}
