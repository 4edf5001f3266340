// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// D5. Spawn of the ancestor returned before the manager had started: reads failed or found nothing, and callers could
// not detect the end of the start.
func TestAncestor_SpawnReturnsBeforeCachesAreFilled(t *testing.T) {
	t.Parallel()
	const objects = 150
	direct := clientFor(t, clusterOf(t, two))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "filled-"}}
	must(t, direct.Create(t.Context(), namespace))
	for i := range objects {
		must(t, direct.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("object-%d", i), Namespace: namespace.Name},
		}))
	}
	p, data := proxyTo(t, two)
	slow := fault.Delay(50*time.Millisecond, 20*time.Millisecond) // A slow start has many intermediate states.
	set(t, p, slow)
	r := newRegistry(t, nil)
	count := func(ctx context.Context, remote client.Client) error {
		var found corev1.ConfigMapList
		if err := remote.List(ctx, &found, client.InNamespace(namespace.Name)); err != nil {
			return err
		}
		if len(found.Items) != objects {
			return fmt.Errorf("the cache has %d of %d objects", len(found.Items), objects)
		}
		return nil
	}
	for range 3 {
		name := registry.ClusterName(unique("filled"))
		ctx, cancel := context.WithCancel(t.Context())
		var early int
		var asking sync.WaitGroup
		asking.Go(func() { // A lease is refused until the cache is complete.
			for ctx.Err() == nil {
				err := r.WithClient(t.Context(), name, count)
				switch {
				case errors.Is(err, registry.ErrNotReady), errors.Is(err, registry.ErrNotFound):
					early++
				case err != nil:
					t.Errorf("got %v from a lease during Spawn, want ErrNotReady or ErrNotFound", err)
				}
			}
		})
		spawn(t, r, name, configFor(t, data))
		set(t, p, fault.Blackhole()) // A cache that is not filled by now cannot fill.
		quickly(t, "the first lease after Spawn", func() error { return r.WithClient(t.Context(), name, count) })
		set(t, p, slow)
		cancel()
		asking.Wait()
		if info, _ := r.Status(name); early == 0 || info.State != state.StateReady {
			t.Errorf("got %d refused leases before Ready, and state %s, want some, and Ready", early, info.State)
		}
	}
}

// D7. In the ancestor a start that failed half-way did not clean up the parts that it had started, and a stop that
// failed kept an entry that could neither be used nor be replaced.
func TestAncestor_FailedStartLeaksAndFailedStopBlocks(t *testing.T) {
	t.Parallel()
	t.Run("a start that fails half-way", func(t *testing.T) {
		t.Parallel()
		var started, ended atomic.Int64
		failing := registry.NewModule("failing", registry.ModuleOptions{Remote: fx.Invoke(func(lifecycle fx.Lifecycle) {
			lifecycle.Append(fx.StartStopHook(func() { started.Add(1) }, func() { ended.Add(1) }))
			lifecycle.Append(fx.StartHook(func() error { return errBroken }))
		})})
		r := newRegistry(t, func(o *registry.Options) { o.Modules = append(o.Modules, failing) })
		const rounds = 10
		for range rounds {
			name := registry.ClusterName(unique("failing"))
			must(t, r.Ensure(name, admin(t, one)))
			expectState(t, r, name, state.StateFailed, state.ReasonStartFailed)
			must(t, r.Stop(t.Context(), name))
		}
		// TestMain checks for leaked goroutines, including the goroutines of managers.
		if started.Load() < rounds || started.Load() != ended.Load() {
			t.Errorf("got %d started and %d stopped hooks, want equal numbers, one or more for each round", started.Load(), ended.Load())
		}
	})
	t.Run("a stop that fails", func(t *testing.T) {
		t.Parallel()
		var s scripts
		r := newRegistry(t, func(o *registry.Options) {
			s.toRegistry(o)
			o.Limits.StopTimeout = time.Second
		})
		blocked := newBlocker(t)
		name := registry.ClusterName(unique("stubborn"))
		s.set(t, name, script{stop: func(context.Context) error {
			blocked.block()
			return errBroken
		}})
		spawn(t, r, name, admin(t, one))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := r.Stop(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Stop of an app that does not end returns %v, want DeadlineExceeded", err)
		}
		s.remove(name)
		must(t, r.Ensure(name, admin(t, one)))
		ctx, cancel = context.WithTimeout(t.Context(), patience)
		defer cancel()
		must(t, r.WaitReady(ctx, name))
		expectWorks(t, one, name)
		must(t, r.Stop(t.Context(), name))
		spawn(t, r, name, admin(t, one))
	})
}
