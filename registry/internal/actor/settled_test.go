// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/internal/middleware"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A heartbeat alone does not make a settled remote decide again. It does while time alone may change a remote, and when
// something else has been posted.
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
		busy   bool
	}{
		"settled":                  {ready(running), false},
		"warm":                     {func(a *Actor) { a.current.Store(&Snapshot{Status: state.Status{State: state.StateWarm}}) }, false},
		"not ready":                {func(a *Actor) { a.current.Store(&Snapshot{}) }, true},
		"a controller that waits":  {ready(starting), true},
		"another choice waits":     {func(a *Actor) { a.waits = true }, true},
		"a second connection":      {func(a *Actor) { a.spare = a.link }, true},
		"another credential":       {func(a *Actor) { a.wants.Credential = "second" }, true},
		"no connection":            {func(a *Actor) { a.link = nil }, true},
		"a stop was posted":        {func(a *Actor) { a.Stop(time.Time{}) }, true},
		"a later stop was posted":  {func(a *Actor) { a.wants.Stop = true; a.Stop(time.Now()) }, true},
		"a desired state":          {func(a *Actor) { a.Want(state.Desired{}) }, true},
		"a fact is in the inbox":   {func(a *Actor) { a.do(func() {}) }, true},
		"no heartbeat, but a wake": {func(a *Actor) { a.beats = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, beats := settledActor(t), 0
			a.beat(func() { beats++ })
			want := 1
			if c.change(a); a.beats == nil {
				want = 0
			}
			testkit.Equal(t, a.respond(), c.busy, "busy")
			testkit.Equal(t, beats, want, "responses to heartbeats")
		})
	}
}

// settledActor returns an Actor that does not run and whose remote is settled.
func settledActor(t *testing.T) *Actor {
	t.Helper()
	secrets := &kubeconfig.Redactor{}
	a := New(&Common{
		Apps: &app.Common{}, Log: logr.Discard(), Secrets: secrets, HubCredential: logsink.NewHubCredential(&rest.Config{}, secrets),
		Middleware: &middleware.Set{},
	}, "edge-1", state.Desired{}.WithDefaults())
	a.take(a.config)
	a.changed = false
	a.wants.Credential = "first"
	a.link = probe.New(t.Context(), probe.Options{
		Redact: func(*kubeconfig.Transport) func(string) string { return nil },
	}, probe.Target{Cluster: "edge-1", Credential: "first"})
	a.current.Store(&Snapshot{Status: state.Status{State: state.StateReady}})
	return a
}
