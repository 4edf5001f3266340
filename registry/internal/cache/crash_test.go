// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// bomb is the decoder of a watch, which panics at an event, as the decoder of a kind may when a remote sends a strange object.
type bomb struct{ exploded atomic.Bool }

func (b *bomb) Decode() (watch.EventType, runtime.Object, error) {
	if b.exploded.CompareAndSwap(false, true) {
		panic("a decoder of the test")
	}
	return "", nil, io.EOF
}

func (b *bomb) Close() {}

// A panic of a list counts as its failure, and so does a panic of the decoder of a watch. A panic of a handler loses the change, and
// the handler hears the next one.
func TestInformer_Panics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put("a")
		s.put("b")
		inner := toolscache.ToListerWatcherWithContext(s.listerWatcher())
		var lists, watches, heard atomic.Int64
		i := informerOf(t, &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				if lists.Add(1) == 1 {
					panic("a list of the test")
				}
				return inner.ListWithContext(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				if watches.Add(1) == 1 {
					return watch.NewStreamWatcher(&bomb{}, apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "")), nil
				}
				return inner.WatchWithContext(ctx, o)
			},
		}, 0, toolscache.Indexers{})
		add(t, i, toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			if heard.Add(1) == 1 {
				panic("a handler of the test")
			}
		}})
		run(t, i)
		<-time.After(time.Minute)
		s.put("c")
		synctest.Wait()
		if lists.Load() < 2 || watches.Load() < 2 || heard.Load() != 3 {
			t.Errorf("got %d lists, %d watches and %d calls of the handler, want two or more, and 3", lists.Load(), watches.Load(), heard.Load())
		}
	})
}
