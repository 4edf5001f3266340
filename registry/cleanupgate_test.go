// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A cleanup step whose write the gate refuses runs again when the gate is open. If it opens too late, the removal says that the
// gate was the reason, and not the module.
func TestRegistry_RemoveBehindAGate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opens  bool
		within time.Duration
		left   []string
	}{
		"the gate opens":          {opens: true, within: patience, left: []string{"traces/first"}},
		"the gate opens too late": {within: 5 * time.Second, left: []string{"traces/configmap", "traces/first", "traces/last"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, config := remote(t, "one")
			s, p := traces{namespace: newNamespace(t, c)}, &permit{}
			var refusals atomic.Int32
			gate := func(name registry.ClusterName) (int64, error) {
				term, err := p.gate(name)
				if err != nil {
					refusals.Add(1)
				}
				return term, err
			}
			late := registry.NewModule("late", registry.ModuleOptions{Remote: fx.Invoke(func(l fx.Lifecycle) {
				l.Append(fx.StopHook(func() { p.closed.Store(false) }))
			})})
			r := newRegistry(t, func(o *registry.Options) {
				o.Modules, o.Gate, o.Limits.StopTimeout = []registry.Module{s.module(), late}, gate, 2*time.Second
			})
			spawn(t, r, "gated", config)
			p.closed.Store(true)
			ended := make(chan error, 1)
			go func() { ended <- removeWithin(t, r, "gated", test.within) }()
			testkit.Until(t, "the gate refuses a write of the step", func() bool { return refusals.Load() != 0 })
			p.closed.Store(!test.opens)
			err := <-ended
			var left *registry.AbandonedError
			if !errors.As(err, &left) || !slices.Equal(left.Steps, test.left) {
				t.Fatalf("Remove: %v, want an AbandonedError with the steps %v", err, test.left)
			}
			if errors.Is(err, registry.ErrStandby) == test.opens || (left.Gate == nil) != test.opens {
				t.Errorf("Remove: %v with the error %v of the gate", err, left.Gate)
			}
			if err := s.find(t, c); apierrors.IsNotFound(err) != test.opens {
				t.Errorf("get the ConfigMap of the module: %v", err)
			}
		})
	}
}

// The removal of a remote whose app could not start says so if the gate refused a write of a hook, or is closed.
func TestRegistry_RemoveOfAnAppThatTheGateKeepsFromStarting(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	for name, start := range map[string]func(context.Context, client.Client, *permit) error{
		"refused, but open at the end": func(ctx context.Context, remote client.Client, p *permit) error {
			p.closed.Store(true)
			defer p.closed.Store(false)
			return remote.Create(ctx, some())
		},
		"closed": func(_ context.Context, _ client.Client, p *permit) error {
			p.closed.Store(true)
			return errors.New("a hook fails")
		},
	} {
		p := &permit{}
		steps := registry.NewModule("steps", registry.ModuleOptions{Remote: fx.Options(
			fx.Provide(registry.AsCleanup(func() registry.CleanupStep {
				return registry.CleanupStep{Name: "steps/one", Run: func(context.Context) error { return nil }}
			})),
			fx.Invoke(func(l fx.Lifecycle, remote client.Client) {
				l.Append(fx.StartHook(func(ctx context.Context) error { return start(ctx, remote, p) }))
			}),
		)})
		r := newRegistry(t, func(o *registry.Options) { o.Modules, o.Gate = []registry.Module{steps}, p.gate })
		must(t, r.Ensure("gated", config))
		expectState(t, r, "gated", state.StateFailed, state.ReasonStartFailed)
		var left *registry.AbandonedError
		if err := removeWithin(t, r, "gated", patience); !errors.As(err, &left) || !errors.Is(err, registry.ErrStandby) {
			t.Errorf("Remove (%s): %v, want an AbandonedError with the error of the gate", name, err)
		}
	}
}
