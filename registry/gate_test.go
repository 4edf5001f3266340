// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// While the gate is closed, the clients of apps and leases write neither to the remote nor to the hub. All of them still read.
func TestRegistry_Gate(t *testing.T) {
	t.Parallel()
	var p permit
	w := newWriters(t, "one", &p)
	for _, shut := range []bool{false, true} {
		p.closed.Store(shut)
		for who, with := range w.with {
			for what, write := range map[string]func(client.Client) error{"create": tryCreate(t), "delete": tryDelete(t)} {
				if err := with(write); errors.Is(err, registry.ErrStandby) != shut || !shut && err != nil {
					t.Errorf("%s of %s: got %v, want that it is refused is %t", what, who, err, shut)
				}
			}
			err := with(func(c client.Client) error {
				return c.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace("default"))
			})
			if err != nil {
				t.Errorf("list of %s: %v", who, err)
			}
		}
	}
}

// WithClient says which replica runs a remote that this hub does not run, and calls nothing.
func TestRegistry_Elsewhere(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, func(o *registry.Options) {
		o.Gate = func(name registry.ClusterName) (int64, error) {
			if name == "theirs" {
				return 0, fmt.Errorf("%s: %w: hub-1", name, registry.ErrElsewhere)
			}
			return 0, nil
		}
	})
	use := func(name registry.ClusterName) error {
		return r.WithClient(t.Context(), name, func(context.Context, client.Client) error {
			t.Errorf("%s is lent", name)
			return nil
		})
	}
	if err := use("theirs"); !errors.Is(err, registry.ErrElsewhere) || !strings.Contains(err.Error(), "hub-1") {
		t.Errorf("got %v, want ErrElsewhere with the replica", err)
	}
	testkit.ErrorIs(t, use("unknown"), registry.ErrNotFound)
}

// A supervised reconcile whose write the gate has refused is repeated soon, and is no error, neither in the metrics nor in the status.
func TestRegistry_ReconcileBehindAGate(t *testing.T) {
	t.Parallel()
	var c counter
	var closed atomic.Bool
	closed.Store(true)
	marking := registry.NewModule("counter", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return registry.ControllerManagedBy(p.Manager).Named("counter").For(&corev1.ConfigMap{}).
			Complete(&marker{counter: &c, name: string(p.Name), remote: p.Client})
	})})
	all := prometheus.NewRegistry()
	r := newRegistry(t, func(o *registry.Options) {
		o.Metrics, o.Modules = all, []registry.Module{marking}
		o.Gate = func(name registry.ClusterName) (int64, error) {
			if closed.Load() {
				return 0, fmt.Errorf("%s: %w", name, registry.ErrElsewhere)
			}
			return 0, nil
		}
	})
	one, config := remote(t, "one")
	key := newConfigMap(t, one)
	spawn(t, r, "refused", config)
	results := func(result string) float64 {
		return metric(t, all, "clusterfx_reconcile_total", map[string]string{"cluster": "refused", "module": "counter", "result": result})
	}
	eventually(t, func() error {
		if got := results("error"); got > 0 {
			t.Fatalf("%v reconciles are errors, want 0", got)
		}
		if got := results("requeue_after"); got < 3 {
			return fmt.Errorf("%v reconciles are repeated later, want 3 or more", got)
		}
		return nil
	})
	expectState(t, r, "refused", state.StateReady, state.ReasonReady)
	closed.Store(false)
	expectSeenBy(t, one, key, "refused")
	if got := results("error"); got > 0 {
		t.Errorf("%v reconciles are errors, want 0", got)
	}
}

func tryCreate(t *testing.T) func(client.Client) error {
	t.Helper()
	return func(c client.Client) error {
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "gate-"}}
		return c.Create(t.Context(), one, client.DryRunAll)
	}
}

func tryDelete(t *testing.T) func(client.Client) error {
	t.Helper()
	return func(c client.Client) error {
		none := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gate-none"}}
		return client.IgnoreNotFound(c.Delete(t.Context(), none, client.DryRunAll))
	}
}
