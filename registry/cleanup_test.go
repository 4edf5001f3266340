// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	network "github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// traces is a module that creates a ConfigMap in its remote and deletes it in a cleanup step.
type traces struct {
	namespace string

	mu   sync.Mutex
	done []string
	hang chan struct{} // blocks the last step, if not nil
}

func (s *traces) module() registry.Module {
	return registry.NewModule("traces", registry.ModuleOptions{Remote: fx.Options(
		fx.Provide(
			registry.AsCleanup(func() registry.CleanupStep {
				return registry.CleanupStep{Name: "traces/last", Order: 2, Run: s.last}
			}),
			registry.AsCleanup(func(remote client.Client) registry.CleanupStep {
				return registry.CleanupStep{Name: "traces/configmap", Order: 1, Run: func(ctx context.Context) error {
					s.note("configmap")
					return remote.Delete(ctx, s.trace())
				}}
			}),
			registry.AsCleanup(func() registry.CleanupStep {
				return registry.CleanupStep{Name: "traces/first", Run: func(context.Context) error {
					s.note("first")
					return errors.New("this one fails")
				}}
			}),
		),
		fx.Invoke(func(l fx.Lifecycle, remote client.Client) {
			l.Append(fx.StartHook(func(ctx context.Context) error {
				return client.IgnoreAlreadyExists(remote.Create(ctx, s.trace()))
			}))
		}),
	)})
}

func (s *traces) last(context.Context) error {
	s.note("last")
	if s.hang != nil {
		<-s.hang
	}
	return nil
}

func (s *traces) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, what)
}

func (s *traces) trace() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "trace"}}
}

// find returns the error of a read of the ConfigMap in the remote.
func (s *traces) find(t *testing.T, c *fleet.Cluster) error {
	t.Helper()
	return clientFor(t, c).Get(t.Context(), client.ObjectKeyFromObject(s.trace()), s.trace())
}

func removeWithin(t *testing.T, r *registry.Registry, name registry.ClusterName, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return r.Remove(ctx, name)
}

func TestRegistry_RemoveCleansUp(t *testing.T) {
	t.Parallel()
	c, config := remote(t, "one")
	s := traces{namespace: newNamespace(t, c)}
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{s.module()} })
	spawn(t, r, "tidy", config)
	if err := s.find(t, c); err != nil {
		t.Fatalf("get the ConfigMap of the module: %v", err)
	}

	err := removeWithin(t, r, "tidy", patience)
	if left, ok := errors.AsType[*registry.AbandonedError](err); !ok || !slices.Equal(left.Steps, []string{"traces/first"}) || left.Zombie {
		t.Errorf("Remove: %v, want an AbandonedError with the step that fails", err)
	}
	if want := []string{"first", "configmap", "last"}; !slices.Equal(s.done, want) {
		t.Errorf("got steps %v, want %v", s.done, want)
	}
	if err := s.find(t, c); !apierrors.IsNotFound(err) {
		t.Errorf("get the ConfigMap of the module: %v, want NotFound", err)
	}
	if _, known := r.Status("tidy"); known {
		t.Error("the remote still exists after Remove")
	}
}

// A cleanup step that fails for a reason that may pass runs again, and no other.
func TestRegistry_RemoveTriesAgain(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	configMaps := schema.GroupResource{Resource: "configmaps"}
	fails := map[string]error{
		"tries/overloaded": apierrors.NewTooManyRequests("later", 1),
		"tries/away":       apierrors.NewServiceUnavailable("etcd is away"),
		"tries/cut":        &url.Error{Op: "Delete", Err: syscall.ECONNRESET},
		"tries/forbidden":  apierrors.NewForbidden(configMaps, "trace", nil),
		"tries/own":        errors.New("a step's own error"),
	}
	tries := map[string]int{} // The steps run one after the other, before Remove returns.
	var parts []fx.Option
	for name, err := range fails {
		parts = append(parts, fx.Provide(registry.AsCleanup(func() registry.CleanupStep {
			return registry.CleanupStep{Name: name, Run: func(context.Context) error {
				if tries[name]++; tries[name] == 1 {
					return fmt.Errorf("clean up: %w", err)
				}
				return nil
			}}
		})))
	}
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{registry.NewModule("tries", registry.ModuleOptions{Remote: fx.Options(parts...)})}
	})
	spawn(t, r, "again", config)
	var left *registry.AbandonedError
	if err := removeWithin(t, r, "again", patience); !errors.As(err, &left) || !slices.Equal(left.Steps, []string{"tries/forbidden", "tries/own"}) {
		t.Errorf("Remove: %v, want an AbandonedError with the steps that fail for good", err)
	}
	want := map[string]int{"tries/overloaded": 2, "tries/away": 2, "tries/cut": 2, "tries/forbidden": 1, "tries/own": 1}
	if !maps.Equal(tries, want) {
		t.Errorf("got the tries %v, want %v", tries, want)
	}
}

// Remove returns within its deadline with a dead remote, a paused remote or a step that hangs, and lists the abandoned steps.
// Promise: a removal always ends, without the remote.
func TestRegistry_RemoveEnds(t *testing.T) {
	t.Parallel()
	all := []string{"traces/configmap", "traces/first", "traces/last"}
	for name, test := range map[string]struct {
		fault  *network.Fault // of the connection to the remote
		paused bool
		hangs  bool
		want   state.State // before the removal
		within time.Duration
		left   []string
	}{
		"the remote is dead": {
			fault: new(network.Refuse()), want: state.StateUnreachable, within: 5 * time.Second, left: all,
		},
		"the remote is dead and nobody has noticed": {
			fault: new(network.Blackhole()), want: state.StateReady, within: 10 * time.Second, left: all[:2],
		},
		"a step hangs": {hangs: true, want: state.StateReady, within: 8 * time.Second, left: all[1:]},
		"the remote is paused": {
			paused: true, want: state.StatePaused, within: 5 * time.Second, left: all,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fleettest.Cluster(t, "one")
			proxy, config := behindProxy(t, c, c.Kubeconfig())
			s := traces{namespace: newNamespace(t, c)}
			if test.hangs {
				s.hang = make(chan struct{})
			}
			r := newRegistry(t, func(o *registry.Options) {
				o.Modules, o.Limits.StopTimeout = []registry.Module{s.module()}, 2*time.Second
			})
			spawn(t, r, "left", config)
			if test.fault != nil {
				must(t, proxy.Set(*test.fault))
			}
			config.Paused = test.paused
			must(t, r.Ensure("left", config))
			eventually(t, func() error {
				if info, _ := r.Status("left"); info.State != test.want {
					return &stateError{want: test.want, got: info}
				}
				return nil
			})
			began := time.Now()
			err := removeWithin(t, r, "left", test.within)
			if took := time.Since(began); took > test.within+time.Second {
				t.Errorf("Remove took %s, want %s", took, test.within)
			}
			if s.hang != nil {
				close(s.hang)
			}
			var left *registry.AbandonedError
			if !errors.As(err, &left) {
				t.Fatalf("Remove: %v, want an AbandonedError", err)
			}
			slices.Sort(left.Steps)
			if !slices.Equal(left.Steps, test.left) {
				t.Errorf("got abandoned steps %v (%v), want %v", left.Steps, err, test.left)
			}
		})
	}
}

// If its deadline passes while the app is still stopping, Remove names the known steps.
func TestRegistry_RemoveNamesTheStepsInTime(t *testing.T) {
	t.Parallel()
	c, hang := fleettest.Cluster(t, "one"), make(chan struct{})
	proxy, config := behindProxy(t, c, c.Kubeconfig())
	s := traces{namespace: newNamespace(t, c)}
	r := newRegistry(t, func(o *registry.Options) {
		o.Limits.StopTimeout = time.Minute
		o.Modules = []registry.Module{s.module(), registry.NewModule("stubborn", registry.ModuleOptions{
			Remote: fx.Invoke(func(mgr ctrl.Manager) error {
				return mgr.Add(manager.RunnableFunc(func(context.Context) error { <-hang; return nil }))
			}),
		})}
	})
	t.Cleanup(func() { close(hang) })
	spawn(t, r, "left", config)
	must(t, proxy.Set(network.Refuse()))
	expectState(t, r, "left", state.StateUnreachable, "Unreachable")
	err := removeWithin(t, r, "left", 2*time.Second)
	var left *registry.AbandonedError
	want := []string{"traces/configmap", "traces/first", "traces/last"}
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &left) || !slices.Equal(left.Steps, want) || !left.Zombie {
		t.Errorf("Remove: %v, want DeadlineExceeded, and an AbandonedError with all steps and a zombie", err)
	}
}
