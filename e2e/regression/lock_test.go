// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

var errBroken = errors.New("it is broken")

// The ancestor held one lock while it contacted a cluster, while it stopped a cluster and while a callback ran, so
// that a slow cluster blocked all others; and the stop of a manager that had ended by itself waited forever.
func TestAncestor_OneLockForEverybody(t *testing.T) {
	t.Parallel()
	var s scripts
	r := newRegistry(t, func(o *registry.Options) {
		s.toRegistry(o)
		o.Limits.StopTimeout = patience
	})
	aside := spawnBystander(t, r, two)
	others := func(t *testing.T) {
		t.Helper()
		name := registry.ClusterName(unique("other"))
		quickly(t, "Spawn of another remote", func() error { return r.Spawn(t.Context(), name, admin(t, one)) })
		quickly(t, "WithClient of another remote", func() error {
			return r.WithClient(t.Context(), name, func(context.Context, client.Client) error { return nil })
		})
		quickly(t, "List and Info", func() error {
			if _, ok := r.Status(name); !ok || len(r.List()) < 2 {
				return errors.New("a remote is missing")
			}
			return nil
		})
		quickly(t, "Stop of another remote", func() error { return r.Stop(t.Context(), name) })
	}
	t.Run("a remote that is contacted and does not answer", func(t *testing.T) {
		p, data := fleettest.ProxyTo(t, fleettest.Cluster(t, one))
		set(t, p, fault.NeverRead())
		name, config := registry.ClusterName(unique("slow")), configFor(t, data)
		config.Probe = state.Probe{Period: patience, Timeout: patience}
		ctx, cancel := context.WithCancel(t.Context())
		spawned := make(chan error, 1)
		go func() { spawned <- r.Spawn(ctx, name, config) }()
		eventually(t, func() error {
			if p.Stats().Accepted == 0 {
				return errors.New("it is not contacted yet")
			}
			return nil
		})
		others(t)
		cancel()
		testkit.ErrorIs(t, <-spawned, context.Canceled, "Spawn returns")
		quickly(t, "Stop", func() error { return r.Stop(t.Context(), name) })
	})
	t.Run("a remote whose stop hangs", func(t *testing.T) {
		blocked := newBlocker(t)
		name := registry.ClusterName(unique("hanging"))
		s.set(t, name, script{stop: func(context.Context) error {
			blocked.block()
			return nil
		}})
		spawn(t, r, name, admin(t, one))
		stopped := make(chan error, 1)
		go func() { stopped <- r.Stop(t.Context(), name) }()
		blocked.await(t)
		others(t)
		blocked.release()
		testkit.NoError(t, <-stopped, "Stop")
	})
	t.Run("a callback that does not return", func(t *testing.T) {
		blocked := newBlocker(t)
		name := registry.ClusterName(unique("held"))
		spawn(t, r, name, admin(t, one))
		returned := make(chan error, 1)
		go func() {
			returned <- r.WithClient(t.Context(), name, func(context.Context, client.Client) error {
				blocked.block()
				return nil
			})
		}()
		blocked.await(t)
		others(t)
		blocked.release()
		must(t, <-returned)
	})
	t.Run("a remote whose app has ended by itself", func(t *testing.T) {
		name := registry.ClusterName(unique("ended"))
		s.set(t, name, script{run: func(context.Context) error { return errBroken }})
		must(t, r.Ensure(name, admin(t, one)))
		eventually(t, func() error {
			if info, _ := r.Status(name); info.App.Reason != state.ReasonModuleFailed {
				return fmt.Errorf("the remote is %s/%s, want an app that failed", info.State, info.Reason)
			}
			return nil
		})
		others(t)
		quickly(t, "Stop", func() error { return r.Stop(t.Context(), name) })
	})
	t.Run("a callback that panics", func(t *testing.T) {
		name := registry.ClusterName(unique("panicking"))
		spawn(t, r, name, admin(t, one))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of a callback does not reach its caller")
				}
			}()
			_ = r.WithClient(t.Context(), name, func(context.Context, client.Client) error { panic(errBroken) })
		}()
		others(t)
		quickly(t, "Stop", func() error { return r.Stop(t.Context(), name) })
	})
	aside.expectUnaware()
}
