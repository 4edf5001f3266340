// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A module that fails a while into every start stays Failed from the first failure on, with its reason, and the other
// module is never Running while the app is not.
func TestFailure_IsShownWhileTheAppIsStartedAgain(t *testing.T) {
	t.Parallel()
	broken := registry.NewModule("broken", registry.ModuleOptions{Remote: fx.Invoke(func(l fx.Lifecycle) {
		l.Append(fx.StartHook(func(ctx context.Context) error {
			wait, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			<-wait.Done()
			return errors.New("boom")
		}))
	})})
	var c counter
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{broken, c.module()} })
	_, config := remote(t, "one")
	if err := r.Ensure("one", config); err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	first := expectState(t, r, "one", state.StateFailed, state.ReasonStartFailed)
	eventually(t, func() error {
		info, _ := r.Status("one")
		for _, m := range info.Modules {
			if m.Name == "broken" && (m.State != state.ModuleFailed || !strings.Contains(m.Message, "boom")) {
				t.Fatalf("start %d: got module %+v, want Failed with boom", info.Restarts, m)
			}
			if m.Name != "broken" && m.State == state.ModuleRunning {
				t.Fatalf("start %d: got module %+v, want it not to be Running", info.Restarts, m)
			}
		}
		if info.Restarts < first.Restarts+2 {
			return fmt.Errorf("got %d more restarts, want 2", info.Restarts-first.Restarts)
		}
		return nil
	})
}
