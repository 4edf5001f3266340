// SPDX-License-Identifier: Apache-2.0

package boundcache

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

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

// budget bounds what the cache of one app holds. It is soft: an app may exceed it by a hundredth, and
// by up to twice while a list comes in whose objects no API server has ever written (see stock).
//
// Objects are counted when they arrive, before they are stored, so that the initial list of a huge
// remote ends before the hub runs out of memory. Nobody says when an object leaves, so the sum of what
// has arrived is only an upper bound; when that reaches the limit, everything is counted anew. An app
// far below its limit thus pays a few additions per object.
type budget struct {
	options              Options
	maxObjects, maxBytes int64

	objects, bytes           atomic.Int64 // upper bounds of what is held
	countObjects, countBytes atomic.Int64 // count anew above these
	dirty                    atomic.Bool  // a refresh is due

	ended chan struct{} // closed when the cache ends, which may be long after the epoch was fenced

	counting sync.Mutex // one count at a time; held while stores are read

	mu       sync.Mutex // protects the fields; held for a few instructions
	stocks   []*Informer
	watchers map[string][]string // by kind, the modules that watch it, sorted
	timer    *time.Timer
	counts   int         // how often the figures for metrics were taken, as far as it makes a difference
	looking  *time.Timer // ends when an informer may become Stale, or not be so any more
}

// Pace at which the figures for metrics are taken, only if something has changed: soon after the first objects
// of a kind, then after twice as long each time, up to every half a minute. So an app that fills its caches, one
// after the other, is never reported as it was half a minute ago.
const (
	firstRefresh = 2 * time.Second
	refreshEvery = 30 * time.Second
)

func newBudget(o Options) *budget {
	b := &budget{
		options:    o,
		maxObjects: o.Limits.MaxObjects, maxBytes: o.Limits.MaxBytes,
		watchers: map[string][]string{},
		ended:    make(chan struct{}),
	}
	b.countObjects.Store(b.maxObjects)
	b.countBytes.Store(b.maxBytes)
	b.timer = time.AfterFunc(refreshEvery, b.refresh)
	b.timer.Stop()
	b.looking = time.AfterFunc(refreshEvery, b.lookAtInformers)
	b.looking.Stop()
	context.AfterFunc(o.Context, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.timer.Stop()
		b.looking.Stop()
	})
	return b
}

// watchedBy notes that a module watches a kind, to be able to say whose objects are too many.
func (b *budget) watchedBy(kind, module string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i, found := slices.BinarySearch(b.watchers[kind], module); !found {
		b.watchers[kind] = slices.Insert(b.watchers[kind], i, module)
	}
}

// newInformerOf returns what makes the informers of a cache, whose objects are counted. filtered is what the cache
// selects.
func (b *budget) newInformerOf(filtered string) func(
	toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers,
) toolscache.SharedIndexInformer {
	return func(
		lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		return b.add(&Informer{budget: b, kind: kindOf(b.options.Scheme, obj), what: typeOf(obj) + filtered}, lw, obj, resync, indexers)
	}
}

// newInformer makes an informer of all objects.
func (b *budget) newInformer(
	lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	return b.newInformerOf("")(lw, obj, resync, indexers)
}

func (b *budget) add( //nolint:revive // argument-limit: client-go's, and the stock.
	s *Informer, lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	s.SharedIndexInformer = toolscache.NewSharedIndexInformer(s.counting(lw), obj, resync, indexers)
	b.mu.Lock()
	b.stocks = append(b.stocks, s)
	b.mu.Unlock()
	return s
}

// spend takes note of objects that have arrived. It does not return before the end of the cache if they
// are too many: nothing more may come in, also while the rest of the app takes its time to end.
func (b *budget) spend(objects, bytes int64) {
	if !b.dirty.Load() && b.dirty.CompareAndSwap(false, true) {
		b.schedule()
	}
	nowObjects, nowBytes := b.objects.Add(objects), b.bytes.Add(bytes)
	if nowObjects <= b.countObjects.Load() && nowBytes <= b.countBytes.Load() {
		return
	}
	if over := b.recount(); over != nil {
		b.options.Fail(over)
		<-b.ended
	}
}

// isLarge reports whether the app has taken in so much that its objects are weighed one by one.
func (b *budget) isLarge() bool { return b.options.Meter.Taken.Load() > b.maxBytes/meter.Growth }

// recount replaces the upper bounds by what is held, and returns an error if that is too much.
func (b *budget) recount() error {
	b.counting.Lock()
	defer b.counting.Unlock()
	if b.objects.Load() <= b.countObjects.Load() && b.bytes.Load() <= b.countBytes.Load() {
		return nil // somebody else has counted meanwhile
	}
	sum := b.count()
	b.objects.Store(sum.Objects)
	b.bytes.Store(sum.Bytes)
	b.countObjects.Store(max(b.maxObjects, sum.Objects+b.maxObjects/100))
	b.countBytes.Store(max(b.maxBytes, sum.Bytes+b.maxBytes/100))
	b.lookAgain()
	return b.exceeded(sum)
}

// lookAgainAfter is when another count follows one that found nothing wrong: what had arrived and was not
// stored yet was in neither figure.
const lookAgainAfter = time.Second

func (b *budget) lookAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.options.Context.Err() == nil {
		b.timer.Reset(lookAgainAfter)
	}
}

// exceeded returns an error if the sum is too much.
func (b *budget) exceeded(sum Amount) error {
	switch {
	case sum.Objects > b.maxObjects:
		return b.over(fmt.Sprintf("%d objects", b.maxObjects), "--max-objects-per-cluster",
			func(t Amount) int64 { return t.Objects })
	case sum.Bytes > b.maxBytes:
		return b.over(fmt.Sprintf("%d MiB", b.maxBytes>>20), "--max-cache-bytes-per-cluster",
			func(t Amount) int64 { return t.Bytes })
	}
	return nil
}

// Amount is an amount of objects.
type Amount struct{ Objects, Bytes int64 }

func (t Amount) Plus(u Amount) Amount { return Amount{t.Objects + u.Objects, t.Bytes + u.Bytes} }

// count counts what every informer holds.
func (b *budget) count() Amount {
	var sum Amount
	for _, s := range b.inUse() {
		sum = sum.Plus(s.count())
	}
	return sum
}

// inUse returns the stocks of the informers that have not been removed.
func (b *budget) inUse() []*Informer {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stocks = slices.DeleteFunc(b.stocks, func(s *Informer) bool { return s.IsStopped() })
	return slices.Clone(b.stocks)
}

// byKind returns the figures of the last count, added up by kind.
func (b *budget) byKind() map[string]Amount {
	b.mu.Lock()
	defer b.mu.Unlock()
	kinds := map[string]Amount{}
	for _, s := range b.stocks {
		if last := s.last.Load(); last != nil {
			kinds[s.kind] = kinds[s.kind].Plus(*last)
		}
	}
	return kinds
}

// over says that the limit is exceeded, and what to do. The text stays the same as long as the
// problem does.
func (b *budget) over(limit, flag string, amount func(Amount) int64) error {
	kinds := b.byKind()
	most := slices.MaxFunc(slices.Sorted(maps.Keys(kinds)), func(x, y string) int {
		return cmp.Compare(amount(kinds[x]), amount(kinds[y]))
	})
	b.mu.Lock()
	watchers := slices.Clone(b.watchers[most])
	b.mu.Unlock()
	what := fmt.Sprintf("the cache would hold more than %s, most of them %s (about %d of %d KiB each)",
		limit, most, roughly(kinds[most].Objects), roughly(kinds[most].Bytes/max(kinds[most].Objects, 1)/1024+1))
	if len(watchers) > 1 {
		what += ", watched by " + strings.Join(watchers, ", ")
	}
	over := &OverBudgetError{text: fmt.Sprintf(
		"%s; raise %s of the hub, limit spec.namespaces of the Cluster, or have the module filter what it caches or watch metadata only", what, flag)}
	if len(watchers) > 0 {
		over.Module = watchers[0]
	}
	return over
}

// OverBudgetError says that the cache of an app would hold more than its budget.
type OverBudgetError struct {
	// Module is a module that watches the objects of which there are most; empty if there is none.
	Module string

	text string
}

// Error says which limit is exceeded, and what to do.
func (e *OverBudgetError) Error() string { return e.text }

// roughly rounds to the first digit.
func roughly(n int64) int64 {
	unit := int64(1)
	for n/unit >= 10 {
		unit *= 10
	}
	return n / unit * unit
}

// schedule has the figures for metrics taken before long.
func (b *budget) schedule() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.options.Context.Err() != nil {
		return
	}
	if slices.ContainsFunc(b.stocks, func(s *Informer) bool { return s.last.Load() == nil }) {
		b.counts = 0
	}
	b.timer.Reset(min(refreshAfter(b.counts), b.options.Limits.Refresh))
	b.counts = min(b.counts+1, maxCounts)
}

// maxCounts is as many as make a difference.
const maxCounts = 10

// refreshAfter returns when the figures are taken, which have been taken so often before.
func refreshAfter(counts int) time.Duration { return min(firstRefresh<<counts, refreshEvery) }

// refresh takes the figures for metrics, and ends the app if they are too much. It runs in a goroutine of its own: where
// an indexer of a module hangs, only this waits for it, not whoever asks for the metrics of the hub.
func (b *budget) refresh() {
	if b.options.Context.Err() != nil {
		return
	}
	b.dirty.Store(false)
	b.options.Arrived()
	b.counting.Lock()
	defer b.counting.Unlock()
	if over := b.exceeded(b.count()); over != nil {
		b.options.Fail(over)
	}
}
