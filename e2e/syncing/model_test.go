// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// A pair keeps two clusters in step whatever people do on both sides, whatever happens to the network, and whenever its process
// ends; and it writes nothing that is not its own.
// Promise: three writers on both sides, outages of each side, and the end of the process before and after each write: each selected original has a copy of equal content or a NameConflict, each copy has its original, and no object without the marks of the pair is written.
func TestModel(t *testing.T) {
	fleettest.Slow(t, "nothing: TestDecide_... of reconcilers/syncer shows each decision; what many of them make of two clusters takes the clusters")
	all := clusters(t, "up", "down")
	begin := func(t *testing.T, id string) *world {
		t.Helper()
		return newWorld(t, all, id)
	}
	t.Run("every write", func(t *testing.T) { everyWrite(t, begin) })
	t.Run("random", func(t *testing.T) { random(t, begin(t, "r")) })
}
