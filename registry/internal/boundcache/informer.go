// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/internal/allocated"
	"github.com/clusterfx/clusterfx/registry/internal/informer"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Informer measures the objects in its store, and observes its lists and watches (see freshness). Its transform gets
// every object once, when it arrives, also before the list enters the store: it counts the object and removes its
// managedFields, a third of an object, of which package allocated keeps what readers use.
type Informer struct {
	*informer.Informer
	budget   *budget
	gvk      schema.GroupVersionKind
	kind     string
	typeName string                   // as client-go writes it
	inner    toolscache.TransformFunc // the transform of the cache; may be nil
	measured atomic.Pointer[Amount]   // the last measurement; nil before the first
	// bookmarks: the API server sends them for the kind, so silence means a broken watch.
	bookmarks atomic.Bool

	mu           sync.Mutex // protects the fields; held for a few instructions
	listVersion  string     // the resource version at the beginning of the list in progress, or of the last one
	arrived      Amount     // objects since then
	sample       Amount     // objects whose size was estimated
	pagination   pagination // of the list in progress
	freshness    freshness
	emptyStreams int   // streamed lists in a row that ended without an object
	explanation  cause // of the last refusal for lack of permissions; may be zero
}

// SetTransform sets the transform of the cache, which follows the counting.
func (i *Informer) SetTransform(f toolscache.TransformFunc) error {
	i.inner = f
	return i.Informer.SetTransform(i.receive)
}

func (i *Informer) receive(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		allocated.Reduce(i.gvk, o)
	}
	if i.inner != nil {
		var err error
		if obj, err = i.transform(obj); err != nil {
			return nil, err
		}
	}
	i.budget.spend(i.count(obj))
	return obj, nil
}

// transform stores an object unchanged and ends the app after a panic. Transforms come with the options of the cache,
// so there is no module to name.
func (i *Informer) transform(obj any) (any, error) {
	out := obj
	err := panics.Catch(func() (err error) {
		out, err = i.inner(obj)
		return err
	})
	var panicked *panics.Error
	if errors.As(err, &panicked) {
		i.budget.options.Fail(fmt.Errorf("transform: %w", err))
		return obj, nil
	}
	return out, err
}

// count returns by how much the upper bounds grow.
func (i *Informer) count(obj any) (objects, bytes int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	one := Amount{1, i.sizeOf(obj)}
	i.arrived = i.arrived.plus(one)
	return one.Objects, one.Bytes
}

// The first objects, and a random sample of the others, are estimated on their way into the store. An estimate takes
// about as long as decoding, counting does not.
const (
	sampleAll   = 8
	sampleOneIn = 32
)

// sizeOf estimates each object in an app that has a good part of its budget: a remote that knows the sampling could
// send large objects among small ones. It needs the lock.
func (i *Informer) sizeOf(obj any) int64 {
	if i.sample.Objects >= sampleAll && rand.Uint32N(sampleOneIn) > 0 && !i.budget.isLarge() {
		return i.sample.Bytes / i.sample.Objects
	}
	weight := meter.Sizeof(obj)
	i.sample = i.sample.plus(Amount{1, weight})
	return weight
}

func (i *Informer) observe(lw toolscache.ListerWatcher) toolscache.ListerWatcher {
	inner := toolscache.ToListerWatcherWithContext(lw)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (list runtime.Object, err error) {
			if o.Continue == "" {
				i.begin()
			}
			err = panics.Catch(func() (err error) {
				return CheckDecoded(transport.WithObserver(ctx, i), "list "+i.typeName, func(ctx context.Context) (err error) {
					list, err = inner.ListWithContext(ctx, o)
					return err
				})
			})
			err = i.explained(err)
			i.notePanic(err)
			i.listed(ctx, err)
			if err == nil {
				i.budget.options.Blocked(i.typeName, Block{})
				err = i.addPage(list, o.Continue != "")
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			streams := o.SendInitialEvents != nil && *o.SendInitialEvents
			if streams {
				if err := i.mayStream(o.ResourceVersion); err != nil {
					return nil, err
				}
				i.begin()
			}
			w, err := inner.WatchWithContext(transport.WithObserver(ctx, i), o)
			if err != nil {
				return nil, i.refused(ctx, i.explained(err), o)
			}
			i.budget.options.Blocked(i.typeName, Block{})
			i.watching()
			watched := &drainedWatch{Interface: w, ended: i.watchEnded}
			if streams {
				watched.list = newStreamedList(w.ResultChan(), i.budget.options.Limits.list(), i.notStreamed)
			}
			return watched, nil
		},
	}
}

// notePanic shows that the remote cannot deliver these objects: only its response can make a decoder panic.
func (i *Informer) notePanic(err error) {
	var panicked *panics.Error
	if errors.As(err, &panicked) {
		i.budget.options.Log.Error(err, "Failed to decode a list", "kind", i.kind, "stack", string(panicked.Stack))
	}
}

func (i *Informer) begin() {
	since := i.LastSyncResourceVersion()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.listVersion, i.arrived = since, Amount{}
}

func (i *Informer) listing() bool {
	if !i.HasSynced() {
		return true
	}
	i.mu.Lock()
	since := i.listVersion
	i.mu.Unlock()
	return i.LastSyncResourceVersion() == since
}

// sampleStored is the number of stored objects whose size a measurement estimates, unless the app is large.
const sampleStored = 256

func (i *Informer) measure() Amount {
	listing, stored := i.listing(), i.GetStore().List()
	sum := Amount{Objects: int64(len(stored)), Bytes: i.sizeOfStored(stored)}
	i.mu.Lock()
	defer i.mu.Unlock()
	if listing {
		sum = Amount{max(sum.Objects, i.arrived.Objects), max(sum.Bytes, i.arrived.Bytes)}
	}
	i.measured.Store(&sum)
	return sum
}

func (i *Informer) sizeOfStored(all []any) int64 {
	sample := len(all)
	if !i.budget.isLarge() {
		sample = min(sample, sampleStored)
	}
	if sample == 0 {
		return 0
	}
	return meter.Sizeof(all[:sample]...) * int64(len(all)) / int64(sample) // a store lists in random order
}

// Users returns the modules that use the informer.
func (i *Informer) Users() []string {
	i.budget.mu.Lock()
	defer i.budget.mu.Unlock()
	return slices.Clone(i.budget.watchers[i.kind])
}

// Forbidden implements transport.WatchObserver.
func (i *Informer) Forbidden(r *http.Request) {
	var why cause
	for _, module := range i.Users() {
		if i.budget.options.Undeclared == nil || why.text != "" {
			break
		}
		why.text, why.problem = i.budget.options.Undeclared(module, r)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.explanation = why
}

// explained adds the explanation to a refusal.
func (i *Informer) explained(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.explanation.text == "" {
		return err
	}
	return &explainedError{i.explanation.text, i.explanation.problem, err}
}

type explainedError struct {
	why     string
	problem state.Problem
	refusal error
}

func (e *explainedError) Error() string { return e.why }

func (e *explainedError) Unwrap() error { return e.refusal }
