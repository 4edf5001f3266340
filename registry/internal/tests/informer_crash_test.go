// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/registry/internal/informer"
)

// A panic of a list counts as its failure. A panic of a handler loses the change, and the handler hears the next one.
func TestInformer_Panics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put("a")
		s.put("b")
		inner := cache.ToListerWatcherWithContext(s.listerWatcher())
		var lists, heard atomic.Int64
		i := informer.New(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				if lists.Add(1) == 1 {
					panic("a list of the test")
				}
				return inner.ListWithContext(ctx, o)
			},
			WatchFuncWithContext: inner.WatchWithContext,
		}, &corev1.ConfigMap{}, 0, cache.Indexers{})
		add(t, i, cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			if heard.Add(1) == 1 {
				panic("a handler of the test")
			}
		}})
		run(t, i)
		<-time.After(time.Minute)
		s.put("c")
		synctest.Wait()
		if lists.Load() != 2 || heard.Load() != 3 {
			t.Errorf("got %d lists and %d calls of the handler, want 2 and 3", lists.Load(), heard.Load())
		}
	})
}
