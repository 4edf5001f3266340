// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

func TestClusterIndex(t *testing.T) {
	t.Parallel()
	var users hubcontroller.ClusterIndex
	expect := func(secret string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, users.Of(secret)); diff != "" {
			t.Errorf("the Clusters that name %q: %s", secret, diff)
		}
	}
	expect("one")
	users.Set("b", "one")
	users.Set("a", "one")
	users.Set("a", "one")
	users.Set("c", "two")
	expect("one", "a", "b")
	expect("two", "c")
	users.Set("a", "two")
	expect("one", "b")
	expect("two", "a", "c")
	users.Set("b", "")
	users.Set("unknown", "")
	expect("one")
	users.Set("a", "")
	expect("two", "c")
}
