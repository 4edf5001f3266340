// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
)

// Borrow returns a clean cluster that no other test uses, and gives it back when the test ends.
func Borrow(tb testing.TB, r pool.Role) *fleet.Cluster {
	tb.Helper()
	lender := Lender()
	c, err := lender.Take(tb.Context(), r)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := lender.GiveBack(context.WithoutCancel(tb.Context()), c); err != nil {
			tb.Logf("the API server is not used again: %v", err)
		}
	})
	return c
}
