// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestStaleFacet(t *testing.T) {
	t.Parallel()
	limits := Limits{StaleAfter: 30 * time.Second, StaleTolerance: 2 * time.Minute}
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	one := cache.InformerStatus{Kind: "Widget.example.dev", Modules: []string{"counter"}, Since: since, Cause: "Why."}
	for after, status := range map[time.Duration]string{
		30 * time.Second:  "True",
		149 * time.Second: "True",
		150 * time.Second: "False",
		time.Hour:         "False",
	} {
		f := staleCondition([]cache.InformerStatus{one}, since.Add(after), limits)
		const message = `module "counter": the cached objects of Widget.example.dev are stale: ` +
			`they cannot be listed and watched since 2026-01-01T00:00:00Z. Why.`
		if string(f.Status) != status || f.Reason != state.ReasonStale || f.Message != message {
			t.Errorf("after %s: got %+v", after, f)
		}
	}
}
