// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// Informer is an informer that knows how much it holds.
//
// Its transform sees every object on its way into the informer; in it objects are counted and rid of
// their managedFields. An object that is streamed (WatchList) passes it twice, when it arrives and
// again when the whole list goes into the store. What still has managedFields passes for the first
// time. Of an object that never had any nobody can tell, so that such objects count half while they
// stream in.
type Informer struct {
	toolscache.SharedIndexInformer
	budget *budget
	kind   string
	what   string                   // as client-go names it
	inner  toolscache.TransformFunc // what others want done with an object; may be nil
	last   atomic.Pointer[Amount]   // the last count; nil before the first one
	// bookmarks says that the API server sends bookmarks of the kind, so that silence means something.
	bookmarks atomic.Bool

	mu          sync.Mutex // protects the fields; held for a few instructions
	streaming   bool       // the list in progress, or the last one, was streamed
	since       string     // the resource version at its beginning
	fresh, bare Amount     // objects with and without managedFields since then
	sample      Amount     // those that have been weighed
	pages       pages      // of the list that comes in
	follows     freshness
	vain        int    // streamed lists in a row that ended at once
	explanation string // of the last refusal for lack of permissions; empty for none
}

// SetTransform sets what is done with every object besides counting it.
func (s *Informer) SetTransform(f toolscache.TransformFunc) error {
	s.inner = f
	return s.SharedIndexInformer.SetTransform(s.take)
}

// take is called with every object on its way into the informer.
func (s *Informer) take(obj any) (any, error) {
	fresh := stripManagedFields(obj)
	if s.inner != nil {
		var err error
		if obj, err = s.transform(obj); err != nil {
			return nil, err
		}
	}
	s.budget.spend(s.add(obj, fresh))
	return obj, nil
}

// transform calls the transform that the informer was given. If it panics, the object stays as it is
// and the app ends. Transforms come with the options of the cache, so that there is no module to name.
func (s *Informer) transform(obj any) (any, error) {
	out := obj
	err := panics.Catch(func() (err error) {
		out, err = s.inner(obj)
		return err
	})
	var panicked *panics.Error
	if errors.As(err, &panicked) {
		s.budget.options.Fail(fmt.Errorf("transform: %w", err))
		return obj, nil
	}
	return out, err
}

// add counts an object, and returns by how much the stock has grown at most.
func (s *Informer) add(obj any, fresh bool) (objects, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.arrived()
	one := Amount{1, s.weigh(obj)}
	if fresh {
		s.fresh = s.fresh.Plus(one)
	} else {
		s.bare = s.bare.Plus(one)
	}
	now := s.arrived()
	return now.Objects - before.Objects, now.Bytes - before.Bytes
}

// Which objects are weighed on their way into the informer: the first ones, and a random sample of the
// others. Weighing takes about as long as decoding, counting does not.
const (
	sampleAll   = 8
	sampleOneIn = 32
)

// weigh returns the weight of an object, or what objects weigh on average. An app that has taken in a good
// part of what it may keep has every one of its objects weighed: a remote that knows how they are sampled
// could send large ones among many small ones. The caller holds the lock.
func (s *Informer) weigh(obj any) int64 {
	if s.sample.Objects >= sampleAll && rand.Uint32N(sampleOneIn) > 0 && !s.budget.isLarge() {
		return s.sample.Bytes / s.sample.Objects
	}
	weight := meter.Sizeof(obj)
	s.sample = s.sample.Plus(Amount{1, weight})
	return weight
}

// arrived is what has come since the beginning of the last list. The caller holds the lock.
func (s *Informer) arrived() Amount {
	sum := s.fresh.Plus(s.bare)
	if s.streaming {
		return Amount{max(s.fresh.Objects, sum.Objects/2), max(s.fresh.Bytes, sum.Bytes/2)}
	}
	return sum
}

// counting returns lw with its lists noticed.
func (s *Informer) counting(lw toolscache.ListerWatcher) toolscache.ListerWatcher {
	inner := toolscache.ToListerWatcherWithContext(lw)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (list runtime.Object, err error) {
			if o.Continue == "" {
				s.begin(false)
			}
			err = panics.Catch(func() (err error) {
				return s.budget.options.Decode(transport.WithObserver(ctx, s), "list "+s.what, func(ctx context.Context) (err error) {
					list, err = inner.ListWithContext(ctx, o)
					return err
				})
			})
			err = s.explained(err)
			s.notePanic(err)
			s.listed(ctx, err)
			if err == nil {
				s.budget.options.Blocked(s.what, Block{})
				err = s.notePage(list, o.Continue != "")
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			streams := o.SendInitialEvents != nil && *o.SendInitialEvents
			if streams {
				if err := s.mayStream(o.ResourceVersion); err != nil {
					return nil, err
				}
				s.begin(true)
			}
			w, err := inner.WatchWithContext(transport.WithObserver(ctx, s), o)
			if err != nil {
				return nil, s.refused(ctx, s.explained(err), streams && o.ResourceVersion == "")
			}
			s.budget.options.Blocked(s.what, Block{})
			s.watching()
			return &drained{Interface: w, ended: s.watchEnded}, nil
		},
	}
}

// notePanic logs the panic of a decoder. Whatever makes one panic came from the remote, which is shown
// to be unable to deliver these objects.
func (s *Informer) notePanic(err error) {
	var panicked *panics.Error
	if errors.As(err, &panicked) {
		s.budget.options.Log.Error(err, "A list could not be decoded", "kind", s.kind, "stack", string(panicked.Stack))
	}
}

// begin notes the beginning of a list.
func (s *Informer) begin(streaming bool) {
	since := s.LastSyncResourceVersion()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streaming, s.since = streaming, since
	s.fresh, s.bare = Amount{}, Amount{}
}

// listing reports whether a list is on its way into the store.
func (s *Informer) listing() bool {
	if !s.HasSynced() {
		return true
	}
	s.mu.Lock()
	since := s.since
	s.mu.Unlock()
	return s.LastSyncResourceVersion() == since
}

// sampleStored is how many of the stored objects are weighed for a count, unless the app is large.
const sampleStored = 256

// count counts what the informer holds.
func (s *Informer) count() Amount {
	listing, stored := s.listing(), s.GetStore().List()
	sum, sample := Amount{Objects: int64(len(stored))}, len(stored)
	if !s.budget.isLarge() {
		sample = min(sample, sampleStored)
	}
	if sample > 0 {
		sum.Bytes = meter.Sizeof(stored[:sample]...) * sum.Objects / int64(sample) // a store lists in random order
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if listing {
		arrived := s.arrived()
		sum = Amount{max(sum.Objects, arrived.Objects), max(sum.Bytes, arrived.Bytes)}
	}
	s.last.Store(&sum)
	return sum
}

// stripManagedFields removes the managedFields of an object, which are a third of it and which nobody
// asks a cache for, and reports whether it had any.
func stripManagedFields(obj any) bool {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		metadata, _ := o.Object["metadata"].(map[string]any)
		_, had := metadata["managedFields"]
		delete(metadata, "managedFields")
		return had
	case metav1.Object:
		if len(o.GetManagedFields()) == 0 {
			return false // setting them would write to an object of the store that others read
		}
		o.SetManagedFields(nil)
		return true
	}
	return false
}

// Users returns the modules that use the informer.
func (s *Informer) Users() []string {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return slices.Clone(s.budget.watchers[s.kind])
}

// Explain notes why the request under way was refused for lack of permissions; an empty text if that is not known.
func (s *Informer) Explain(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.explanation = why
}

// explained returns the error of a list or watch, with the explanation if it was refused for lack of permissions.
func (s *Informer) explained(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.explanation == "" {
		return err
	}
	return &explainedError{s.explanation, err}
}

// explainedError is the refusal of a list or watch, with an explanation.
type explainedError struct {
	why     string
	refusal error
}

func (e *explainedError) Error() string { return e.why }

// Unwrap returns the refusal.
func (e *explainedError) Unwrap() error { return e.refusal }
