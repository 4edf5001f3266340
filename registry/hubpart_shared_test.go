// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The remote part of a module that needs a shared value waits while the hub part that shares it does not run, and gets
// the value of the next life of the hub part.
func TestHubParts_SharedValueWaits(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	var lives atomic.Int64
	var broken atomic.Bool
	var seen atomic.Int64
	broken.Store(true)
	end := make(chan struct{}, 1)
	r, run, err := hubApp(t,
		hubModule("maker", fx.Options(
			fx.Provide(func(m ctrl.Manager) (*atomic.Int64, error) {
				if broken.Load() {
					return nil, errors.New("no database")
				}
				value := &atomic.Int64{}
				value.Store(lives.Add(1))
				return value, m.Add(manager.RunnableFunc(func(ctx context.Context) error {
					select {
					case <-end:
						return errors.New("the end")
					case <-ctx.Done():
						return nil
					}
				}))
			}),
			registry.Share[*atomic.Int64](),
		)).Option(),
		registry.NewModule("user", registry.ModuleOptions{Remote: fx.Invoke(func(v *atomic.Int64) { seen.Store(v.Load()) })}).Option(),
		registry.NewModule("bystander", registry.ModuleOptions{Remote: fx.Invoke(func() {})}).Option(),
	)
	must(t, err)
	run()
	spawn(t, r, "a", config)
	expectModule(t, r, "a", "bystander", state.ModuleRunning, state.ReasonRunning)
	waiting := expectModule(t, r, "a", "user", state.ModuleWaiting, state.ReasonHubPartNotRunning)
	if !strings.Contains(waiting.Message, "module maker") {
		t.Errorf("got %+v, want a message with module maker", waiting)
	}
	broken.Store(false)
	expectModule(t, r, "a", "user", state.ModuleRunning, state.ReasonRunning)
	broken.Store(true) // for the next start
	end <- struct{}{}
	expectModule(t, r, "a", "user", state.ModuleWaiting, state.ReasonHubPartNotRunning)
	broken.Store(false)
	eventually(t, func() error {
		if got := seen.Load(); got != 2 {
			return fmt.Errorf("the app has the value of life %d, want 2", got)
		}
		return nil
	})
	expectModule(t, r, "a", "user", state.ModuleRunning, state.ReasonRunning)
}
