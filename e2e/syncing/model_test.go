// SPDX-License-Identifier: Apache-2.0

package syncing_test

import "testing"

// A pair keeps two clusters in step whatever people do on both sides, whatever happens to the network, and whenever its process
// ends; and it writes nothing that is not its own.
func TestModel(t *testing.T) {
	all := clusters(t, "up", "down")
	begin := func(t *testing.T, id string) *world {
		t.Helper()
		return newWorld(t, all, id)
	}
	t.Run("every write", func(t *testing.T) { everyWrite(t, begin) })
	t.Run("random", func(t *testing.T) { random(t, begin(t, "r")) })
}
