// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A hook that writes fails while the gate refuses writes, and the app with it. When the remote is to work, the failures do not
// count: the app starts at once, also if a hook whose write was refused before that fails later.
func TestRegistry_WarmBehindAGate(t *testing.T) {
	t.Parallel()
	for name, isLate := range map[string]bool{"the hook fails before": false, "the hook fails after that": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gateOfWarm{}
			if isLate {
				g.granted = make(chan struct{})
			}
			all := prometheus.NewRegistry()
			r := newRegistry(t, func(o *registry.Options) {
				o.Metrics, o.Modules, o.Gate = all, []registry.Module{g.module()}, g.decide
			})
			_, config := remote(t, "one")
			ensureWarm(t, r, config, true)
			g.expectRefusals(t, isLate)
			if !isLate {
				expectState(t, r, "a", state.StateFailed, state.ReasonStartFailed)
			}
			g.open.Store(true)
			config.Revision = "granted"
			ensureWarm(t, r, config, false)
			expectReadyWithoutFailure(t, r, config.Revision, sync.OnceFunc(func() {
				if isLate {
					close(g.granted)
				}
			}))
			labels := map[string]string{"cluster": "a", "reason": state.ReasonStartFailed}
			if got := metric(t, all, "clusterfx_app_failures_total", labels); got > 0 {
				t.Errorf("%v failures are counted, want 0", got)
			}
		})
	}
}

// gateOfWarm is a gate that refuses writes until open is true. Its module has a hook that writes.
type gateOfWarm struct {
	open     atomic.Bool
	refusals atomic.Int64
	granted  chan struct{} // A hook whose write was refused waits for it; nil for no wait.
}

func (g *gateOfWarm) decide(name registry.ClusterName) (int64, error) {
	if g.open.Load() {
		return 0, nil
	}
	return 0, fmt.Errorf("%s: %w", name, registry.ErrElsewhere)
}

func (g *gateOfWarm) module() registry.Module {
	return registry.NewModule("writes", registry.ModuleOptions{Remote: fx.Invoke(func(l fx.Lifecycle, remote client.Client) {
		l.Append(fx.StartHook(func(ctx context.Context) error {
			one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "gate-"}}
			err := remote.Create(ctx, one, client.DryRunAll)
			if err == nil {
				return nil
			}
			g.refusals.Add(1)
			if g.granted != nil {
				<-g.granted
			}
			return err
		}))
	})})
}

// expectRefusals waits until a hook has failed so often that the backoff takes seconds, or, if hooks wait, for the first.
func (g *gateOfWarm) expectRefusals(t *testing.T, isLate bool) {
	t.Helper()
	want := int64(3)
	if isLate {
		want = 1
	}
	eventually(t, func() error {
		if got := g.refusals.Load(); got < want {
			return fmt.Errorf("%d writes of hooks are refused, want %d", got, want)
		}
		return nil
	})
}

// expectReadyWithoutFailure waits until a desired state is Ready, and fails the test if it is Failed before. It calls taken when
// the desired state is in the status.
func expectReadyWithoutFailure(t *testing.T, r *registry.Registry, revision string, taken func()) {
	t.Helper()
	eventually(t, func() error {
		info, _ := r.Status("a")
		if info.Revision == revision {
			taken()
			if info.State == state.StateFailed || info.App.Status == metav1.ConditionFalse || info.Restarts > 0 {
				t.Errorf("got state %s, %d restarts and %+v, want none", info.State, info.Restarts, info.App)
			}
		}
		if info.Revision != revision || info.State != state.StateReady {
			return fmt.Errorf("revision %q is %s: %s", info.Revision, info.State, info.Message)
		}
		return nil
	})
}
