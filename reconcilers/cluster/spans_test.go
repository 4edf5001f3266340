// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"go.opentelemetry.io/otel/trace/noop"
)

// Without a collector of traces the hub's App has a provider, too, and a Reconcile allocates no memory for it.
func TestSpans_CostNothingWhenOff(t *testing.T) {
	for name, s := range map[string]spans{"nothing": newSpans(nil), "nowhere": newSpans(noop.NewTracerProvider())} {
		if n := testing.AllocsPerRun(100, func() {
			_, end := s.begin(t.Context(), "one")
			end(nil)
		}); n > 0 {
			t.Errorf("traces go to %s: got %v allocations, want 0", name, n)
		}
	}
}
