// SPDX-License-Identifier: Apache-2.0

package fleettest

import "testing"

// Slow skips the test with -short; make test-all runs it. shownBy is the fast test of the same promise, as in
// "./registry/internal/machine TestMachine_Backoff", or "nothing: " and why none can show it. Call it as the first
// statement, or in a subtest: the tests of docs find it there, and check the other test.
func Slow(tb testing.TB, shownBy string) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("not with -short; meanwhile: " + shownBy)
	}
}
