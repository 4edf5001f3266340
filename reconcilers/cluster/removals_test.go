// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
)

// ended is a registry that notes how a remote ends.
type ended struct {
	slow
	how []string
}

func (e *ended) Remove(context.Context, registry.ClusterName) error {
	e.how = append(e.how, "removed")
	return nil
}

func (e *ended) Stop(context.Context, registry.ClusterName) error {
	e.how = append(e.how, "stopped")
	return nil
}

func reconcilerOf(r remotes, share Share) *reconciler {
	one := &reconciler{share: share, remotes: r, suspects: noSuspects{}}
	one.removals = removals{remotes: r, within: time.Minute, memory: &one.memory}
	return one
}

// The remote of a Cluster that has vanished, or that has another UID since its hub was restored, is stopped and keeps its objects.
func TestRemovals_OfVanishedClusters(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		end  func(*reconciler)
		want string
	}{
		"gone": {func(r *reconciler) { r.clear(t.Context(), "a") }, "stopped"},
		"another UID": {func(r *reconciler) {
			r.isClear(t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "second"}})
		}, "stopped"},
	} {
		e := &ended{slow: slow{info: registry.Status{Revision: "first/1"}}}
		r := reconcilerOf(e, everything{})
		tc.end(r)
		r.removals.work.Wait()
		if !slices.Equal(e.how, []string{tc.want}) {
			t.Errorf("the remote of a Cluster that is %s: got %v, want %s", what, e.how, tc.want)
		}
	}
}

// returned is a registry whose remote can be stopped, is gone after that, and runs again after Ensure.
type returned struct {
	ended
	mu    sync.Mutex // protects gone
	gone  bool
	stops chan struct{} // a stop ends after this channel is closed
}

func (r *returned) Stop(ctx context.Context, name registry.ClusterName) error {
	<-r.stops
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
	return r.ended.Stop(ctx, name)
}

func (r *returned) Status(registry.ClusterName) (registry.Status, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.info, !r.gone
}

// The stop of a Cluster that had vanished is not the removal of the Cluster that has returned and is being deleted: the
// finalizer stays until the stop has ended, and then its removal begins like that of any other.
func TestRemovals_OfAReturnedCluster(t *testing.T) {
	t.Parallel()
	e := &returned{ended: ended{slow: slow{info: registry.Status{Revision: "first/1"}}}, stops: make(chan struct{})}
	r := reconcilerOf(e, everything{})
	r.clear(t.Context(), "a")
	if !r.removals.isStopping(r.memory.of("a")) {
		t.Fatal("the remote is not being stopped")
	}
	now := metav1.Now()
	// A reconcile that does not wait would write to the hub, which this reconciler has no client for.
	result, err := r.finish(t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Name: "a", UID: "first", DeletionTimestamp: &now, Finalizers: []string{hubv1.FinalizerCluster},
	}})
	if err != nil || result != (ctrl.Result{}) {
		t.Errorf("got %+v, %v, want to wait for the end of the stop", result, err)
	}
	close(e.stops)
	r.removals.work.Wait()
	if r.removals.isStopping(r.memory.of("a")) || r.memory.of("a").removal != nil {
		t.Error("the stop is taken for the removal of the Cluster that has returned")
	}
}

// late is a registry whose remote ends after its removal has run out of time, and before the next call.
type late struct {
	slow
	calls int
	left  *registry.AbandonedError
}

func (l *late) Remove(ctx context.Context, _ registry.ClusterName) error {
	if l.calls++; l.calls > 1 {
		return registry.ErrNotFound
	}
	<-ctx.Done()
	return fmt.Errorf("stop: %w: %w", ctx.Err(), l.left)
}

// A removal that has run out of time reports the steps that it has given up, also if the remote has ended before the
// second call.
func TestRemovals_EndBetweenTheCalls(t *testing.T) {
	t.Parallel()
	l := &late{left: &registry.AbandonedError{Steps: []string{"hanging/everything"}}}
	r := &removals{remotes: l, within: time.Millisecond, memory: &memory{}}
	one := r.begin(t.Context(), r.memory.of("a"), l.Remove, false)
	<-one.done
	event, err := endOf(one)
	if err != nil || event.Reason != eventAbandoned || !strings.Contains(event.Note, "hanging/everything") {
		t.Errorf("got the event %+v and the error %v, want one that names the step", event, err)
	}
	if l.calls != 2 {
		t.Errorf("got %d calls of Remove, want 2", l.calls)
	}
}
