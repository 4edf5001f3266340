// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"testing"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A remote is settled, so that it is probed less often, unless time or another probe may change it.
func TestActor_Settled(t *testing.T) {
	t.Parallel()
	starting := []state.ModuleStatus{{Name: "a", Controllers: []state.ControllerStatus{{Name: "late", State: state.ModuleStarting}}}}
	running := []state.ModuleStatus{{Name: "a", Controllers: []state.ControllerStatus{{Name: "b", State: state.ModuleRunning}}}}
	ready := func(modules []state.ModuleStatus) func(*Actor) {
		return func(a *Actor) {
			a.current.Store(&Snapshot{Status: state.Status{State: state.StateReady, Modules: modules}})
		}
	}
	for name, c := range map[string]struct {
		change func(*Actor)
		want   bool
	}{
		"settled":                 {ready(running), true},
		"warm":                    {func(a *Actor) { a.current.Store(&Snapshot{Status: state.Status{State: state.StateWarm}}) }, true},
		"not ready":               {func(a *Actor) { a.current.Store(&Snapshot{}) }, false},
		"a controller that waits": {ready(starting), false},
		"another choice waits":    {func(a *Actor) { a.waits = true }, false},
		"a second connection":     {func(a *Actor) { a.spare = a.link }, false},
		"another credential":      {func(a *Actor) { a.wants.Credential = "second" }, false},
		"no connection":           {func(a *Actor) { a.link = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := settledActor(t)
			c.change(a)
			testkit.Equal(t, a.isSettled(), c.want, "settled")
		})
	}
}

type noMiddleware struct{ Middleware }

func (noMiddleware) Limits(_ state.ClusterName, c *state.Desired) (state.ClientLimits, error) {
	return c.Client, nil
}

// settledActor returns an Actor that does not run and whose remote is settled.
func settledActor(t *testing.T) *Actor {
	t.Helper()
	a := New(&Common{
		Apps: &app.Common{}, Log: logr.Discard(), Secrets: &kubeconfig.Redactor{}, Middleware: noMiddleware{},
	}, "edge-1", state.Desired{}.WithDefaults())
	a.take(a.config)
	a.changed = false
	a.wants.Credential = "first"
	a.link = probe.New(t.Context(), probe.Options{}, probe.Target{Cluster: "edge-1", Credential: "first"})
	a.current.Store(&Snapshot{Status: state.Status{State: state.StateReady}})
	return a
}
