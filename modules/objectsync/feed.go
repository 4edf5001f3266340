// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/side"
)

// feed gives the events of the objects of one View to all entries that follow it: with a handler for each entry, an event would cost as
// many calls as there are rules.
type feed struct {
	object client.Object // an empty one of the remote; nil for the hub
	view   side.View
	ctx    context.Context //nolint:containedctx // The life of the feed.
	cancel context.CancelFunc
	synced chan struct{} // closed when the view has its initial objects

	mu        sync.Mutex         // protects the fields; held while an event is noted for all entries, and while an entry reads the objects from memory
	members   map[*entry]*member // nil before it has joined
	left      time.Time          // by the last member
	isRefused bool               // the API server has refused a watch
}

// member is an entry in a feed.
type member struct {
	syncer.Watched
	of       *feed
	concerns func(*metav1.ObjectMeta) bool
}

// remoteFeed returns the feed of a kind in the remote, in which the entry has a place.
func (e *engine) remoteFeed(object client.Object, one *entry) (*feed, error) {
	f := &feed{object: object}
	view, err := syncer.OfRemote(e.params.Remote).Open(side.Want{Object: object, Refused: f.refused})
	f.view = view
	return e.feed(keyOf(object), f, one), err
}

func keyOf(object client.Object) string {
	return fmt.Sprintf("%T of %s", object, object.GetObjectKind().GroupVersionKind())
}

// feed returns that of a key, a View for the hub, which may be next.
func (e *engine) feed(of any, next *feed, one *entry) *feed {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.feeds[of]
	if f == nil || f.ctx.Err() != nil {
		f = next
		e.feeds[of] = f
		f.members, f.synced = map[*entry]*member{}, make(chan struct{})
		f.ctx, f.cancel = context.WithCancel(e.ctx)
		e.running.Go(func() { f.start(e.again.Queue()) })
	}
	f.set(one, nil)
	return f
}

func (f *feed) set(one *entry, m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[one] = m
}

// start adds nothing to the queue.
func (f *feed) start(queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	err := wait.PollUntilContextCancel(f.ctx, kindAgain, true, func(context.Context) (bool, error) {
		from := f.view.Requests(f.observe)
		return from.Start(f.ctx, queue) == nil && from.WaitForSync(f.ctx) == nil, nil
	})
	if err == nil {
		close(f.synced)
	}
}

// observe returns no requests, since the entries have a queue.
func (f *feed) observe(ctx context.Context, obj client.Object, deleted bool) []types.NamespacedName {
	of := metadataIn(obj)
	f.mu.Lock()
	defer f.mu.Unlock()
	for one, m := range f.members {
		if m != nil && m.concerns(of) {
			one.request(m.Observe(ctx, obj, deleted)...)
		}
	}
	return nil
}

// metadataIn is for functions that ask for the labels many times.
func metadataIn(obj client.Object) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName(), Labels: obj.GetLabels(), Finalizers: obj.GetFinalizers()}
}

// join gives the entry the objects that there are, and each event from then on.
func (m *member) join(ctx context.Context, one *entry) error {
	f := m.of
	select {
	case <-f.synced:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all := listOf(one.GVK())
	if err := m.Reader().List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range all.Items {
		if m.concerns(metadataIn(&all.Items[i])) {
			one.request(m.Observe(ctx, &all.Items[i], false)...)
		}
	}
	f.members[one] = m
	return nil
}

func (f *feed) refused() {
	f.mu.Lock()
	f.isRefused = true
	all := slices.Collect(maps.Keys(f.members))
	f.mu.Unlock()
	for _, one := range all {
		one.refused()
	}
}

// leave ends the place of an entry in all feeds.
func (e *engine) leave(one *entry) {
	e.mu.Lock()
	feeds := slices.Collect(maps.Values(e.feeds))
	e.mu.Unlock()
	for _, f := range feeds {
		f.mu.Lock()
		if _, was := f.members[one]; was {
			delete(f.members, one)
			f.left = time.Now()
		}
		f.mu.Unlock()
	}
}

// endUnneeded ends feeds without a rule. A permission that only they need can then be taken away. The informer of a
// remote ends with the next call, when it has no handler.
func (e *engine) endUnneeded(ctx context.Context, now time.Time) {
	var ended []client.Object
	e.mu.Lock()
	for of, f := range e.feeds {
		switch {
		case f.ctx.Err() != nil:
			delete(e.feeds, of)
			if f.object != nil {
				ended = append(ended, f.object)
			}
		case f.isUnneeded(now):
			f.cancel()
		}
	}
	e.mu.Unlock()
	for _, object := range ended {
		if err := e.params.Cache.RemoveInformer(ctx, object); err != nil && ctx.Err() == nil {
			e.params.Logger.Error(err, "Failed to end an informer that no rule needs", "kind", object.GetObjectKind().GroupVersionKind().Kind)
		}
	}
}

func (f *feed) isUnneeded(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.members) == 0 && (f.isRefused || now.Sub(f.left) >= unneededFor)
}
