// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"testing"

	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// forgetter is a module that leaks goroutines, in the hub and in each app, until release is closed.
type forgetter struct{ release chan struct{} }

func (f *forgetter) module() registry.Module {
	return registry.NewModule("forgetter", registry.ModuleOptions{
		HubRuns: registry.WithRemotes,
		Hub:     fx.Invoke(func() { go f.waitInHub() }),
		Remote:  fx.Invoke(func(registry.ClusterName) { go f.waitInApp() }),
	})
}

func (f *forgetter) waitInHub() { <-f.release }
func (f *forgetter) waitInApp() { <-f.release }

// A hub that leaves goroutines behind fails its test. Those of other hubs, and of the test itself, are not its leaks.
func TestLeaks(t *testing.T) {
	t.Parallel()
	other := hubtest.New(t, hubtest.Remotes("same"), hubtest.Modules(echo()))
	mine := make(chan struct{})
	defer close(mine)
	go func() { <-mine }()
	if said := fails(t, func(tb *failing) {
		hub := hubtest.New(tb, hubtest.Remotes("same"), hubtest.Modules(echo()))
		expectEcho(tb, hub, hub.Remote("same"), "hello")
	}); said != "" {
		t.Error(said)
	}
	f := &forgetter{release: make(chan struct{})}
	defer close(f.release)
	said := fails(t, func(tb *failing) {
		hubtest.New(tb, hubtest.Remotes("same"), hubtest.Modules(f.module()), hubtest.LeakPatience(short))
	})
	for _, want := range []string{"the hub has ended, but these goroutines are still running", "waitInHub", "waitInApp"} {
		testkit.Has(t, said, want, "failure")
	}
	expectEcho(t, other, other.Remote("same"), "still here")
}

// Baseline.Wait reports goroutines that an app leaks while the hub runs.
func TestBaseline(t *testing.T) {
	t.Parallel()
	f := &forgetter{release: make(chan struct{})}
	said := fails(t, func(tb *failing) {
		hub := hubtest.New(tb, hubtest.Modules(f.module()))
		defer close(f.release)
		edge := hub.AddRemote("edge")
		edge.WaitReady()
		edge.Deregister()
		before := hub.Baseline()
		edge.Register()
		edge.WaitReady()
		edge.Deregister()
		hub.SetPatience(short)
		before.Wait()
	})
	for _, want := range []string{"these are more than before", "waitInApp"} {
		testkit.Has(t, said, want, "failure")
	}
}
