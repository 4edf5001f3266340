// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Changes that only the remote causes cost ever fewer apps; a change after a calm time applies at once.
func TestChoosing_Believes(t *testing.T) {
	t.Parallel()
	var c choosing
	now, apps := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0
	for range 3600 { // an hour in which each second has a different result
		if c.believes(now, probe.NewPauses().Retry) {
			apps++
		}
		now = now.Add(time.Second)
	}
	if apps < 10 || apps > 20 {
		t.Errorf("got %d apps in an hour, want 10 to 20", apps)
	}
	if now = now.Add(calm + maxTurnPause); !c.believes(now, probe.NewPauses().Retry) || c.turns != 1 {
		t.Error("change after a calm time has to wait")
	}
}

func TestOperatorChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after state.Desired
		want  bool
	}{
		"nothing":                    {state.Desired{}, false},
		"an annotation":              {state.Desired{Annotations: map[string]string{"a": "b"}}, false},
		"a label":                    {state.Desired{Labels: map[string]string{"a": "b"}}, true},
		"no modules instead of all":  {state.Desired{Modules: []string{}}, true},
		"a namespace":                {state.Desired{Namespaces: []string{"a"}}, true},
		"other bounds":               {state.Desired{Client: state.ClientLimits{QPS: 1}}, true},
		"a revision and a suspicion": {state.Desired{Revision: "2", CrashRecord: state.CrashRecord{Crashes: 1}}, false},
	} {
		if got := operatorChanges(&state.Desired{}, &c.after); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
