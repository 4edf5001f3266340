// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

func TestIndex(t *testing.T) {
	t.Parallel()
	var users hubcontroller.Index
	expect := func(secret string, want ...string) {
		t.Helper()
		testkit.Equal(t, users.Of(secret), want, "the Clusters that name", secret)
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
