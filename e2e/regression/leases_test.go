// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/registry"
)

// Fault F74: callbacks that never return. In the ancestor they held the lock of all clusters. Here the remote is
// stopped, and registered again as another cluster, while they run, and their later requests are refused.
func TestLeases_CallbacksThatNeverReturn(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	aside := spawnBystander(t, r, one)
	held := registry.ClusterName(unique("held"))
	spawn(t, r, held, admin(t, one))
	const callbacks = 20
	blocked := newBlocker(t)
	late := make(chan error, callbacks)
	var inside, running sync.WaitGroup
	inside.Add(callbacks)
	for range callbacks {
		running.Go(func() {
			late <- r.WithClient(t.Context(), held, func(ctx context.Context, remote client.Client) error {
				inside.Done()
				blocked.block()
				if cause := context.Cause(ctx); !errors.Is(cause, registry.ErrStopped) {
					return fmt.Errorf("the context ended with %w, want ErrStopped", cause)
				}
				ctx = context.WithoutCancel(ctx) // as a caller does to finish its work
				_, write := newConfigMap(ctx, remote, held)
				read := remote.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(metav1.NamespacePublic))
				if !errors.Is(write, registry.ErrStopped) || !errors.Is(read, registry.ErrStopped) {
					return fmt.Errorf("after the stop a write returns %w and a read returns %w, want ErrStopped", write, read)
				}
				return nil
			})
		})
	}
	inside.Wait()
	quickly(t, "Stop while callbacks run", func() error { return r.Stop(t.Context(), held) })
	quickly(t, "Spawn of the same name", func() error { return r.Spawn(t.Context(), held, admin(t, two)) })
	expectWorks(t, two, held)
	blocked.release()
	running.Wait()
	for range callbacks {
		if err := <-late; err != nil {
			t.Error(err)
		}
	}
	if n := r.Zombies(); n != 0 {
		t.Errorf("got %d zombies, want 0: a callback belongs to its caller, not to the app", n)
	}
	aside.expectUnaware()
}

// Fault F75: callbacks that call the registry. In the ancestor each of these calls was a deadlock. Here they return.
func TestLeases_CallbacksThatCallTheRegistry(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	aside := spawnBystander(t, r, two)
	config := admin(t, one)
	nothing := func(context.Context, client.Client) error { return nil }
	var nest func(ctx context.Context, name registry.ClusterName, depth int) error
	nest = func(ctx context.Context, name registry.ClusterName, depth int) error {
		if depth == 0 {
			return nil
		}
		return r.WithClient(ctx, name, func(ctx context.Context, _ client.Client) error { return nest(ctx, name, depth-1) })
	}
	// The context of a callback ends with its remote: a call that ends the remote needs another context.
	calls := map[string]func(ctx context.Context, self, other registry.ClusterName) error{
		"WithClient of itself, again and again": func(ctx context.Context, self, _ registry.ClusterName) error {
			return nest(ctx, self, 100)
		},
		"WithCluster of another one": func(ctx context.Context, _, other registry.ClusterName) error {
			return r.WithCluster(ctx, other, func(context.Context, cluster.Cluster) error { return nil })
		},
		"Ensure of itself, and WaitReady": func(ctx context.Context, self, _ registry.ClusterName) error {
			changed := config
			changed.Labels = map[string]string{"region": "eu"}
			return errors.Join(r.Ensure(self, changed), r.WaitReady(ctx, self))
		},
		"Spawn and Stop of a third one": func(ctx context.Context, self, _ registry.ClusterName) error {
			third := self + "-third"
			return errors.Join(r.Spawn(ctx, third, config), r.WithClient(ctx, third, nothing), r.Stop(ctx, third))
		},
		"Stop of another one": func(ctx context.Context, _, other registry.ClusterName) error { return r.Stop(ctx, other) },
		"Stop of itself": func(ctx context.Context, self, _ registry.ClusterName) error {
			return r.Stop(context.WithoutCancel(ctx), self)
		},
		"Remove of itself": func(ctx context.Context, self, _ registry.ClusterName) error {
			return r.Remove(context.WithoutCancel(ctx), self)
		},
		"Stop of itself, and Spawn": func(ctx context.Context, self, _ registry.ClusterName) error {
			ctx = context.WithoutCancel(ctx)
			return errors.Join(r.Stop(ctx, self), r.Spawn(ctx, self, config))
		},
		"List, Info and Zombies": func(_ context.Context, self, _ registry.ClusterName) error {
			if _, ok := r.Status(self); !ok || len(r.List()) == 0 || r.Zombies() != 0 {
				return errors.New("the registry does not know its remotes")
			}
			return nil
		},
	}
	for what, call := range calls {
		t.Run(what, func(t *testing.T) {
			self, other := registry.ClusterName(unique("self")), registry.ClusterName(unique("other"))
			spawn(t, r, self, config)
			spawn(t, r, other, config)
			quickly(t, what, func() error {
				return r.WithClient(t.Context(), self, func(ctx context.Context, _ client.Client) error {
					return call(ctx, self, other)
				})
			})
		})
	}
	aside.expectUnaware()
	t.Run("Shutdown", func(t *testing.T) {
		name := registry.ClusterName(unique("self"))
		spawn(t, r, name, config)
		quickly(t, "Shutdown", func() error {
			return r.WithClient(t.Context(), name, func(context.Context, client.Client) error { return r.Shutdown(t.Context()) })
		})
	})
}
