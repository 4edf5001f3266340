// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// While the hub is overloaded, apps start one at a time, and all start. Otherwise they start at the same time, up to the limit.
func TestRegistry_Overloaded(t *testing.T) {
	t.Parallel()
	const remotes = 4
	for name, c := range map[string]struct {
		overloaded bool
		want       int64
	}{"overloaded": {true, 1}, "not overloaded": {false, remotes}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var starting, most atomic.Int64
			var overloaded atomic.Bool
			overloaded.Store(c.overloaded)
			together := make(chan struct{})
			hold := registry.NewModule("hold", registry.ModuleOptions{Remote: fx.Invoke(func(l fx.Lifecycle) {
				l.Append(fx.StartHook(func() {
					now := starting.Add(1)
					defer starting.Add(-1)
					for before := most.Load(); before < now && !most.CompareAndSwap(before, now); before = most.Load() {
					}
					if now == remotes {
						close(together)
					}
					if !c.overloaded {
						<-together // The apps of the other remotes start meanwhile.
					}
				}))
			})})
			r := newRegistry(t, func(o *registry.Options) {
				o.Modules, o.Limits.Starts, o.Overloaded = []registry.Module{hold}, remotes, overloaded.Load
			})
			_, config := remote(t, "one")
			for i := range remotes {
				if err := r.Ensure(registry.ClusterName(fmt.Sprintf("remote-%d", i)), config); err != nil {
					t.Fatal(err)
				}
			}
			for i := range remotes {
				expectState(t, r, registry.ClusterName(fmt.Sprintf("remote-%d", i)), state.StateReady, state.ReasonReady)
			}
			if most.Load() != c.want {
				t.Errorf("%d apps were started at the same time, want %d", most.Load(), c.want)
			}
		})
	}
}
