// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watched selects the objects of Watch.
type Watched struct {
	Client  client.WithWatch
	List    client.ObjectList // of their type; Watch fills it with the first list
	Options []client.ListOption
}

// Watch calls see with each object of a list, then, in a goroutine, with each later version, until stop is called,
// which waits for that, or the test ends. The API server may end a watch at any time, and does so soon after a
// CustomResourceDefinition was created; Watch continues, and fails the test if versions are lost.
func Watch(t testing.TB, w Watched, see func(client.Object)) (stop func()) {
	t.Helper()
	if err := w.Client.List(t.Context(), w.List, w.Options...); err != nil {
		t.Fatalf("list what the test watches: %v", err)
	}
	_ = meta.EachListItem(w.List, func(o runtime.Object) error {
		if one, ok := o.(client.Object); ok {
			see(one)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	events, err := watchtools.NewRetryWatcherWithContext(ctx, w.List.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			options := append([]client.ListOption{&client.ListOptions{Raw: &o}}, w.Options...)
			list, _ := w.List.DeepCopyObject().(client.ObjectList)
			return w.Client.Watch(ctx, list, options...)
		},
	})
	if err != nil {
		cancel()
		t.Fatalf("watch what the test has listed: %v", err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { read(ctx, t, events, see) })
	stop = func() {
		cancel()
		<-events.Done()
		reading.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// read calls see until the watch ends, which must be the end of ctx.
func read(ctx context.Context, t testing.TB, events watch.Interface, see func(client.Object)) {
	t.Helper()
	for e := range events.ResultChan() {
		if one, ok := e.Object.(client.Object); ok {
			see(one)
			continue
		}
		t.Errorf("the test does not see the next versions: %v", apierrors.FromObject(e.Object))
	}
	if ctx.Err() == nil {
		t.Error("the watch of the test has ended")
	}
}
