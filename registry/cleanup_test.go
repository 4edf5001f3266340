// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// traces is a module that creates a ConfigMap in its remote and deletes it in a cleanup step.
type traces struct {
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
					return remote.Delete(ctx, trace())
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
				return client.IgnoreAlreadyExists(remote.Create(ctx, trace()))
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

func trace() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "trace"}}
}

func removeWithin(t *testing.T, r *registry.Registry, name registry.ClusterName, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return r.Remove(ctx, name)
}

func TestRegistry_RemoveCleansUp(t *testing.T) {
	t.Parallel()
	c := dedicated(t)
	var s traces
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{s.module()} })
	spawn(t, r, "tidy", configFor(t, c.Kubeconfig()))
	direct := clientFor(t, c)
	if err := direct.Get(t.Context(), client.ObjectKeyFromObject(trace()), trace()); err != nil {
		t.Fatalf("get the ConfigMap of the module: %v", err)
	}

	err := removeWithin(t, r, "tidy", patience)
	var left *registry.AbandonedError
	if !errors.As(err, &left) || !slices.Equal(left.Steps, []string{"traces/first"}) || left.Zombie {
		t.Errorf("Remove: %v, want an AbandonedError with the step that fails", err)
	}
	if want := []string{"first", "configmap", "last"}; !slices.Equal(s.done, want) {
		t.Errorf("got steps %v, want %v", s.done, want)
	}
	if err := direct.Get(t.Context(), client.ObjectKeyFromObject(trace()), trace()); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("get the ConfigMap of the module: %v, want NotFound", err)
	}
	if _, known := r.Status("tidy"); known {
		t.Error("the remote still exists after Remove")
	}
}

// Remove returns within its deadline with a dead remote, a paused remote or a step that hangs, and lists the abandoned
// steps.
func TestRegistry_RemoveEnds(t *testing.T) {
	t.Parallel()
	all := []string{"traces/first", "traces/configmap", "traces/last"}
	for name, test := range map[string]struct {
		change func(t *testing.T, r *registry.Registry, c *fleet.Cluster, s *traces)
		within time.Duration
		left   []string
	}{
		"the remote is dead": {
			func(t *testing.T, r *registry.Registry, c *fleet.Cluster, _ *traces) {
				t.Helper()
				if err := c.Kill(); err != nil {
					t.Fatalf("Kill: %v", err)
				}
				expectState(t, r, "left", state.StateUnreachable, "Unreachable")
			}, 5 * time.Second, all,
		},
		"the remote is dead and nobody has noticed": {
			func(t *testing.T, _ *registry.Registry, c *fleet.Cluster, _ *traces) {
				t.Helper()
				if err := c.Pause(); err != nil {
					t.Fatalf("Pause: %v", err)
				}
			}, 10 * time.Second, []string{"traces/first", "traces/configmap"},
		},
		"a step hangs": {
			func(_ *testing.T, _ *registry.Registry, _ *fleet.Cluster, s *traces) { s.hang = make(chan struct{}) },
			8 * time.Second,
			[]string{"traces/first", "traces/last"},
		},
		"the remote is paused": {
			func(t *testing.T, r *registry.Registry, c *fleet.Cluster, _ *traces) {
				t.Helper()
				config := configFor(t, c.Kubeconfig())
				config.Paused = true
				if err := r.Ensure("left", config); err != nil {
					t.Fatalf("Ensure: %v", err)
				}
				expectState(t, r, "left", state.StatePaused, state.ReasonPaused)
			}, 5 * time.Second, all,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dedicated(t)
			var s traces
			r := newRegistry(t, func(o *registry.Options) {
				o.Modules, o.Limits.StopTimeout = []registry.Module{s.module()}, 2*time.Second
			})
			spawn(t, r, "left", configFor(t, c.Kubeconfig()))
			test.change(t, r, c, &s)
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
			slices.Sort(test.left)
			if !slices.Equal(left.Steps, test.left) {
				t.Errorf("got abandoned steps %v (%v), want %v", left.Steps, err, test.left)
			}
		})
	}
}

// If its deadline passes while the app is still stopping, Remove names the known steps.
func TestRegistry_RemoveNamesTheStepsInTime(t *testing.T) {
	t.Parallel()
	c, hang := dedicated(t), make(chan struct{})
	var s traces
	r := newRegistry(t, func(o *registry.Options) {
		o.Limits.StopTimeout = time.Minute
		o.Modules = []registry.Module{s.module(), registry.NewModule("stubborn", registry.ModuleOptions{
			Remote: fx.Invoke(func(mgr ctrl.Manager) error {
				return mgr.Add(manager.RunnableFunc(func(context.Context) error { <-hang; return nil }))
			}),
		})}
	})
	t.Cleanup(func() { close(hang) })
	spawn(t, r, "left", configFor(t, c.Kubeconfig()))
	if err := c.Kill(); err != nil {
		t.Fatalf("Kill: %v", err)
	}
	expectState(t, r, "left", state.StateUnreachable, "Unreachable")
	err := removeWithin(t, r, "left", 2*time.Second)
	var left *registry.AbandonedError
	want := []string{"traces/configmap", "traces/first", "traces/last"}
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &left) || !slices.Equal(left.Steps, want) || !left.Zombie {
		t.Errorf("Remove: %v, want DeadlineExceeded, and an AbandonedError with all steps and a zombie", err)
	}
}

// Remove waits for a starting app and runs its cleanup steps, which revert the changes of an earlier epoch.
func TestRegistry_RemoveWhileStarting(t *testing.T) {
	t.Parallel()
	c := dedicated(t)
	var s traces
	starting, removed := make(chan struct{}), make(chan struct{})
	started := sync.OnceFunc(func() { close(starting) })
	slow := registry.NewModule("slow", registry.ModuleOptions{Remote: fx.Invoke(func(l fx.Lifecycle, p registry.Remote) {
		l.Append(fx.StartHook(func() {
			if p.Status.Epoch > 1 {
				started()
				<-removed
			}
		}))
	})})
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{slow, s.module()} })
	config := configFor(t, c.Kubeconfig())
	spawn(t, r, "early", config)
	info, _ := r.Status("early")
	if err := r.Stop(t.Context(), "early"); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	direct := clientFor(t, c)
	if err := direct.Get(t.Context(), client.ObjectKeyFromObject(trace()), trace()); err != nil || s.done != nil {
		t.Fatalf("get the ConfigMap of the earlier epoch: %v; got steps %v, want none", err, s.done)
	}

	config.Identity.Known = info.ID
	if err := r.Ensure("early", config); err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	<-starting
	ended := make(chan error, 1)
	go func() { ended <- removeWithin(t, r, "early", patience) }()
	eventually(t, func() error {
		if info, _ := r.Status("early"); info.State != state.StateStopping {
			return &stateError{want: state.StateStopping, got: info}
		}
		return nil
	})
	close(removed)
	err := <-ended
	var left *registry.AbandonedError
	if !errors.As(err, &left) || !slices.Equal(left.Steps, []string{"traces/first"}) {
		t.Errorf("Remove: %v, want an AbandonedError with only the step that fails", err)
	}
	if err := direct.Get(t.Context(), client.ObjectKeyFromObject(trace()), trace()); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("get the ConfigMap of the earlier epoch: %v, want NotFound", err)
	}
}

// dedicated returns a cluster that only this test uses.
func dedicated(t *testing.T) *fleet.Cluster {
	t.Helper()
	c, err := fleettest.New(t, fleet.Options{}).Create(t.Context(), fmt.Sprintf("own-%d", time.Now().UnixNano()%1e6))
	if err != nil {
		t.Fatalf("create a cluster: %v", err)
	}
	return c
}
