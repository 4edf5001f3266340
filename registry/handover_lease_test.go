// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// When another app takes over, a caller inside WithClient keeps its client for some time. Then its context ends.
func TestRegistry_LeaseOfAReplacedApp(t *testing.T) {
	t.Parallel()
	var c counter
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{c.module(), registry.NewModule("idle", registry.ModuleOptions{})}
		o.Hasten()
	})
	_, config := remote(t, "one")
	spawn(t, r, "one", config)
	began := time.Now()
	err := r.WithClient(t.Context(), "one", func(ctx context.Context, remote client.Client) error {
		config.Modules = []string{"counter"}
		if err := r.Ensure("one", config); err != nil {
			return err
		}
		expectStatus(t, r, "one", func(info registry.Status) bool { return info.Reason == state.ReasonReady && len(info.Modules) == 1 })
		if err := remote.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", GenerateName: "late-",
		}}, client.DryRunAll); err != nil {
			return fmt.Errorf("write with the lease of the replaced app: %w", err)
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, registry.ErrReplaced) || !errors.Is(err, registry.ErrStopped) {
		t.Errorf("the lease ended with %v, want ErrReplaced", err)
	}
	if took := time.Since(began); took < registry.HastyGrace {
		t.Errorf("the lease ended after %s, want %s or more", took, registry.HastyGrace)
	}
}

// stubborn is a module whose runnable writes to the remote and to the hub after its context has ended, and reports the errors.
type stubborn struct{ wrote chan map[string]error }

func (s *stubborn) module() registry.Module {
	return registry.NewModule("stubborn", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		write := func(ctx context.Context, to client.Client) error {
			return to.Create(context.WithoutCancel(ctx), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", GenerateName: "stubborn-",
			}}, client.DryRunAll)
		}
		own, err := client.New(p.Config, client.Options{Scheme: p.Scheme, Mapper: p.RESTMapper})
		if err != nil {
			return err
		}
		return p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
			<-ctx.Done()
			s.wrote <- map[string]error{
				"remote": write(ctx, p.Client), "remote with a client of its own": write(ctx, own), "hub": write(ctx, p.HubClient),
			}
			return nil
		}))
	})})
}

// When another app replaces an app, the writes of the replaced app are refused from the moment at which the context of
// its controllers ends, while its leases continue.
func TestRegistry_WritesOfAReplacedApp(t *testing.T) {
	t.Parallel()
	s := stubborn{wrote: make(chan map[string]error, 2)}
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{s.module(), registry.NewModule("idle", registry.ModuleOptions{})}
	})
	_, config := remote(t, "one")
	spawn(t, r, "one", config)
	err := r.WithClient(t.Context(), "one", func(ctx context.Context, remote client.Client) error {
		config.Modules = []string{"stubborn"}
		if err := r.Ensure("one", config); err != nil {
			return err
		}
		for where, err := range <-s.wrote {
			if !errors.Is(err, registry.ErrReplaced) {
				t.Errorf("write to the %s: got %v, want ErrReplaced", where, err)
			}
		}
		return remote.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", GenerateName: "lent-",
		}}, client.DryRunAll)
	})
	if err != nil {
		t.Errorf("write with the lease of the replaced app: %v", err)
	}
}

// A stop or a pause of the remote, and a remote that is to be warm, end the leases of the replaced app, too.
func TestRegistry_LeaseOfAReplacedAppEndsWithTheRemote(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context, *registry.Registry, state.Desired) error{
		"stop": func(ctx context.Context, r *registry.Registry, _ state.Desired) error { return r.Stop(ctx, "one") },
		"pause": func(_ context.Context, r *registry.Registry, c state.Desired) error {
			c.Paused = true
			return r.Ensure("one", c)
		},
		"warm": func(_ context.Context, r *registry.Registry, c state.Desired) error {
			c.Warm = true
			return r.Ensure("one", c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t, func(o *registry.Options) {
				o.Modules = []registry.Module{registry.NewModule("first", registry.ModuleOptions{}), registry.NewModule("second", registry.ModuleOptions{})}
			})
			_, config := remote(t, "one")
			spawn(t, r, "one", config)
			before, _ := r.Status("one")
			err := r.WithClient(t.Context(), "one", func(ctx context.Context, _ client.Client) error {
				config.Modules = []string{"first"}
				if err := r.Ensure("one", config); err != nil {
					return err
				}
				eventually(t, func() error {
					if info, _ := r.Status("one"); info.Reason != state.ReasonReady || info.Epoch == before.Epoch {
						return &stateError{want: state.StateReady, got: info}
					}
					return nil
				})
				if err := end(ctx, r, config); err != nil && ctx.Err() == nil {
					return err
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if !errors.Is(err, registry.ErrStopped) || errors.Is(err, registry.ErrReplaced) {
				t.Errorf("the lease ended with %v, want ErrStopped", err)
			}
		})
	}
}
