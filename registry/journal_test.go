// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// notes is a journal that tests can read.
type notes struct {
	mu    sync.Mutex
	open  map[registry.ClusterName]bool
	lines []string
	fails bool
}

func (n *notes) Begin(_ context.Context, name registry.ClusterName, _ bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open[name] = true
	n.lines = append(n.lines, "begin "+string(name))
	if n.fails {
		return errors.New("the journal is closed")
	}
	return nil
}

func (n *notes) End(name registry.ClusterName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, name)
	n.lines = append(n.lines, "end "+string(name))
}

func (n *notes) isOpen(name registry.ClusterName) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open[name]
}

// The journal has an entry for an app before any code of its modules runs, and until the app has been ready for a while.
func TestRegistry_Journal(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"that works": false, "that fails": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &notes{open: map[registry.ClusterName]bool{}, fails: fails}
			looked := make(chan bool, 1)
			look := registry.NewModule("look", registry.ModuleOptions{Remote: fx.Invoke(func() { looked <- n.isOpen("one") })})
			r := newRegistry(t, func(o *registry.Options) { o.Journal, o.Modules = n, []registry.Module{look} })
			_, config := remote(t, "one")
			spawn(t, r, "one", config)
			if !<-looked {
				t.Error("the app was built before its entry was opened")
			}
			if !n.isOpen("one") {
				t.Error("the entry was closed as soon as the app was ready")
			}
			testkit.Until(t, "the entry is closed", func() bool { return !n.isOpen("one") })
		})
	}
}

// A quarantined app does not start before its quarantine ends.
func TestRegistry_Quarantine(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	_, config := remote(t, "one")
	config.CrashRecord = state.CrashRecord{Crashes: 3, Until: time.Now().Add(time.Hour)}
	must(t, r.Ensure("poison", config))
	expectState(t, r, "poison", state.StateFailed, state.ReasonQuarantined)
	config.CrashRecord.Until = time.Now().Add(2 * time.Second)
	must(t, r.Ensure("poison", config))
	expectState(t, r, "poison", state.StateReady, state.ReasonReady)
	if early := time.Until(config.CrashRecord.Until); early > 0 {
		t.Errorf("the app was started %s early", early)
	}
}
