// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestRegistry_RunsTheSameModuleInEveryRemote(t *testing.T) {
	t.Parallel()
	var c counter
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{c.module()} })
	one, oneConfig := remote(t, "one")
	two, twoConfig := remote(t, "two")
	spawn(t, r, "one", oneConfig)
	spawn(t, r, "two", twoConfig)
	expectSeenBy(t, one, newConfigMap(t, one), "one")
	expectSeenBy(t, two, newConfigMap(t, two), "two")

	infos := r.List()
	if len(infos) != 2 || infos[0].Name != "one" || infos[1].Name != "two" {
		t.Fatalf("got List %v, want one and two", infos)
	}
	info := infos[0]
	if info.Version != fleet.KubernetesVersion || info.ID == "" || info.ID == infos[1].ID || info.Epoch == infos[1].Epoch {
		t.Errorf("got status %+v, want a version, an ID and an epoch of its own", info)
	}
	if len(info.Modules) != 1 || info.Modules[0].State != state.ModuleRunning {
		t.Errorf("got modules %+v, want 1 that is Running", info.Modules)
	}
}

func TestRegistry_EnsureIsIdempotent(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	_, config := remote(t, "one")
	spawn(t, r, "one", config)
	testkit.ErrorIs(t, r.Spawn(t.Context(), "one", config), registry.ErrAlreadyExists, "Spawn of a known name")
	config.Labels = map[string]string{"region": "eu"}
	must(t, r.Ensure("one", config))
	expectStatus(t, r, "one", func(info registry.Status) bool { return info.Labels["region"] == "eu" })
	if info, _ := r.Status("one"); info.Epoch != 1 || info.State != state.StateReady {
		t.Errorf("after a change of labels: got epoch %d, state %s; want 1, Ready", info.Epoch, info.State)
	}
}

// Promise: while a remote cannot be used, a lease returns the reason at once.
func TestRegistry_Leases(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	_, config := remote(t, "one")
	spawn(t, r, "one", config)
	spawn(t, r, "other", config)
	nothing := func(context.Context, client.Client) error { return nil }

	t.Run("an unknown name is not found", func(t *testing.T) {
		err := r.WithClient(t.Context(), "nobody", nothing)
		testkit.ErrorIs(t, err, registry.ErrNotFound)
	})
	t.Run("the error of the callback comes back as it is", func(t *testing.T) {
		sentinel := errors.New("sentinel")
		err := r.WithClient(t.Context(), "one", func(context.Context, client.Client) error { return sentinel })
		if err != sentinel { //nolint:errorlint // identity is the contract
			t.Errorf("got %v, want the sentinel itself", err)
		}
	})
	t.Run("a remote that cannot be used says so at once", func(t *testing.T) {
		config.Paused = true
		must(t, r.Ensure("asleep", config))
		expectState(t, r, "asleep", state.StatePaused, state.ReasonPaused)
		err := r.WithClient(t.Context(), "asleep", nothing)
		if notReady, ok := errors.AsType[*registry.NotReadyError](err); !ok || !errors.Is(err, registry.ErrNotReady) || notReady.Reason != state.ReasonPaused {
			t.Errorf("got %v, want a NotReadyError with reason Paused", err)
		}
	})
	t.Run("callbacks may block and call the registry, and nobody waits for them", func(t *testing.T) {
		inside, release := make(chan struct{}), make(chan struct{})
		blocked := make(chan error, 1)
		go func() {
			blocked <- r.WithClient(t.Context(), "one", func(context.Context, client.Client) error {
				close(inside)
				<-release
				return nil
			})
		}()
		<-inside
		err := r.WithClient(t.Context(), "one", func(ctx context.Context, _ client.Client) error {
			if err := r.WithClient(ctx, "other", nothing); err != nil {
				return err
			}
			stopCtx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return r.Stop(stopCtx, "other")
		})
		if err != nil {
			t.Errorf("re-entrant call: %v", err)
		}
		close(release)
		if err := <-blocked; err != nil {
			t.Errorf("the blocked callback: %v", err)
		}
	})
	t.Run("a stop ends the callback's context and refuses its requests", func(t *testing.T) {
		err := r.WithClient(t.Context(), "one", func(ctx context.Context, remote client.Client) error {
			stopped := make(chan error, 1)
			go func() { stopped <- r.Stop(t.Context(), "one") }()
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, registry.ErrStopped) {
				t.Errorf("got cause %v, want ErrStopped", cause)
			}
			for whose, ctx := range map[string]context.Context{"lease": ctx, "caller": t.Context()} {
				write := remote.Create(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{GenerateName: "late-", Namespace: "default"},
				})
				if !errors.Is(write, registry.ErrStopped) {
					t.Errorf("write after the stop with the context of the %s: %v, want ErrStopped", whose, write)
				}
				if read := remote.List(ctx, &corev1.NamespaceList{}); !errors.Is(read, registry.ErrStopped) {
					t.Errorf("cached read after the stop with the context of the %s: %v, want ErrStopped", whose, read)
				}
			}
			return <-stopped
		})
		if err != nil {
			t.Errorf("Stop inside a callback: %v", err)
		}
		testkit.ErrorIs(t, r.Stop(t.Context(), "one"), registry.ErrNotFound, "second Stop")
	})
	config.Paused = false
	t.Run("a callback that does not return holds up nothing", func(t *testing.T) { neverReturns(t, r, config) })
	t.Run("a callback may end its remote, and the registry", func(t *testing.T) { endFromInside(t, r, config) })
}

// neverReturns stops a remote, and spawns its name again, while a callback runs, which belongs to its caller and not to the app.
func neverReturns(t *testing.T, r *registry.Registry, config state.Desired) {
	t.Helper()
	inside, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	spawn(t, r, "held", config)
	go func() {
		ended <- r.WithClient(t.Context(), "held", func(context.Context, client.Client) error {
			close(inside)
			<-release
			return nil
		})
	}()
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.Stop(ctx, "held"); err != nil {
		t.Errorf("Stop while a callback runs: %v", err)
	}
	spawn(t, r, "held", config)
	if err := r.WithClient(t.Context(), "held", func(context.Context, client.Client) error { return nil }); err != nil {
		t.Errorf("the remote with the same name: %v", err)
	}
	testkit.Equal(t, r.Zombies(), 0, "zombies")
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the callback: %v", err)
	}
}

// endFromInside ends remotes, and the registry last, from callbacks. The context of a callback ends with its remote.
func endFromInside(t *testing.T, r *registry.Registry, config state.Desired) {
	t.Helper()
	for _, c := range []struct {
		self registry.ClusterName
		end  func(context.Context, registry.ClusterName) error
	}{
		{"removes-itself", r.Remove},
		{"spawns-itself", func(ctx context.Context, self registry.ClusterName) error {
			return errors.Join(r.Stop(ctx, self), r.Spawn(ctx, self, config))
		}},
		{"shuts-down", func(ctx context.Context, _ registry.ClusterName) error { return r.Shutdown(ctx) }},
	} {
		spawn(t, r, c.self, config)
		err := r.WithClient(t.Context(), c.self, func(ctx context.Context, _ client.Client) error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			return c.end(ctx, c.self)
		})
		if err != nil {
			t.Errorf("%s: %v", c.self, err)
		}
	}
}

func TestRegistry_SpawnReturnsWithItsContext(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	_, config := remote(t, "one")
	config.Endpoint.Server = "https://127.0.0.1:1"
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := r.Spawn(ctx, "nowhere", config)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, registry.ErrNotReady) {
		t.Errorf("got %v, want DeadlineExceeded and ErrNotReady", err)
	}
	expectState(t, r, "nowhere", state.StateUnreachable, "Unreachable")
	began := time.Now()
	if err := r.Stop(t.Context(), "nowhere"); err != nil {
		t.Errorf("Stop of an unreachable remote: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Stop of an unreachable remote took %s, want 5s at most", took)
	}
}

// Promise: a new token is used under the running app.
func TestRegistry_CredentialIsSwappedUnderTheRunningApp(t *testing.T) {
	t.Parallel()
	var c counter
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{c.module()} })
	one, config := remote(t, "one")
	spawn(t, r, "rotating", config)
	minted, err := one.MintToken(t.Context(), fleet.User{Name: "rotated", Rules: everything})
	must(t, err)
	must(t, r.Ensure("rotating", configFor(t, minted.Kubeconfig())))
	expectSeenBy(t, one, newConfigMap(t, one), "rotating")
	if info, _ := r.Status("rotating"); info.Epoch != 1 || info.State != state.StateReady {
		t.Errorf("after the rotation: got epoch %d, state %s; want 1, Ready", info.Epoch, info.State)
	}
	must(t, minted.Revoke(t.Context()))
	expectState(t, r, "rotating", state.StateUnreachable, state.ReasonUnauthorized)
	must(t, r.Ensure("rotating", config))
	expectState(t, r, "rotating", state.StateReady, state.ReasonReady)
}

func TestRegistry_StopThatIsOvertaken(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := registry.NewModule("slow", registry.ModuleOptions{
		Remote: fx.Invoke(func(lc fx.Lifecycle) { lc.Append(fx.StopHook(func() { <-release })) }),
	})
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{slow} })
	_, config := remote(t, "one")
	spawn(t, r, "one", config)
	stopped := make(chan error, 1)
	go func() { stopped <- r.Stop(t.Context(), "one") }()
	expectState(t, r, "one", state.StateStopping, state.ReasonStopping)
	must(t, r.Ensure("one", config))
	testkit.ErrorIs(t, <-stopped, registry.ErrSuperseded, "Stop")
	close(release)
	expectState(t, r, "one", state.StateReady, state.ReasonReady)
}

// A remote that starts and ends repeatedly leaves nothing behind, which TestMain checks.
func TestRegistry_Cycles(t *testing.T) {
	t.Parallel()
	var c counter
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{c.module()} })
	_, config := remote(t, "one")
	for range 10 {
		spawn(t, r, "cycle", config)
		must(t, r.Stop(t.Context(), "cycle"))
	}
	testkit.Equal(t, r.Zombies(), 0, "zombies")
}

func TestRegistry_ShutdownIsFinal(t *testing.T) {
	t.Parallel()
	r, config := newRegistry(t, nil), state.Desired{}
	must(t, r.Shutdown(t.Context()))
	if all, err := r.List(), r.Ensure("one", config); len(all) > 0 || !errors.Is(err, registry.ErrClosed) {
		t.Errorf("after Shutdown there are %v, and Ensure returns %v, want ErrClosed", all, err)
	}
}

func TestRegistry_SelectsModules(t *testing.T) {
	t.Parallel()
	var c counter
	idle := registry.NewModule("idle", registry.ModuleOptions{Select: registry.Selector{MinVersion: "1.30"}}) // as real servers have
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{c.module(), idle} })
	_, config := remote(t, "one")
	config.Modules = []string{"idle", "inventroy"}
	must(t, r.Ensure("one", config))
	info := expectState(t, r, "one", state.StateReady, state.ReasonWaiting)
	if len(info.Modules) != 2 || info.Modules[0].State != state.ModuleRunning ||
		info.Modules[1].Name != "inventroy" || info.Modules[1].State != state.ModuleWaiting {
		t.Errorf("got modules %+v, want idle Running and inventroy Waiting", info.Modules)
	}
	config.Modules = []string{"counter"}
	must(t, r.Ensure("one", config))
	info = expectState(t, r, "one", state.StateReady, state.ReasonReady)
	if info.Epoch != 2 || len(info.Modules) != 1 || info.Modules[0].Name != "counter" {
		t.Errorf("got epoch %d with %+v, want epoch 2 with counter", info.Epoch, info.Modules)
	}
}
