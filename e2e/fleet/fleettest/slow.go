// SPDX-License-Identifier: Apache-2.0

package fleettest

import "testing"

// Slow skips the test with -short, as make test does; make test-all runs it. shownBy is the test that shows the same
// promise with -short, at a lower level, as in "./registry/internal/machine TestMachine_Backoff"; or it is "nothing: " and
// the reason why no faster test can show the promise. The test calls Slow itself, as its first statement or in a
// subtest: the tests of docs find it there, and check that the other test exists and is fast.
func Slow(tb testing.TB, shownBy string) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("not with -short; meanwhile: " + shownBy)
	}
}
