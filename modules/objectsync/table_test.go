// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

func testEntry(t *testing.T) *entry {
	t.Helper()
	e := &engine{ctx: t.Context(), shared: newShared(usual())}
	return newEntry(e, rules.Rule{Name: "a", UID: "1", Generation: 1}, false)
}

// One rule has at most half of the workers of its kind: further requests wait until it gives one back, and none is lost.
func TestEntry_Take(t *testing.T) {
	t.Parallel()
	one := testEntry(t)
	key := func(i int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(i)} }
	taken := 0
	for i := range 2 * workers {
		if one.take(key(i)) {
			taken++
		}
	}
	testkit.Equal(t, taken, workers/2)
	if !one.isParked(key(workers)) {
		t.Error("a request that does not fit is not parked")
	}
	seen := map[types.NamespacedName]bool{}
	for range 2*workers - taken {
		next, ok := one.give()
		if !ok || seen[next] || !one.take(next) {
			t.Fatalf("got %v, %t", next, ok)
		}
		seen[next] = true
	}
	if _, ok := one.give(); ok {
		t.Error("a request comes from nowhere")
	}
}

// Promise: a rule edited 100 times in 10 s: one pass.
func TestEntry_EditedFor(t *testing.T) {
	t.Parallel()
	now := testEntry(t)
	at, passes := time.Now(), 0
	rule := now.Rule
	for range 100 {
		rule.Generation++
		if now.editedFor(rule, at) <= 0 {
			passes++
		}
		at = at.Add(100 * time.Millisecond)
	}
	wait := now.editedFor(rule, at)
	if passes > 0 || wait <= 0 {
		t.Errorf("%d passes while it was edited; then it waits for %s", passes, wait)
	}
	testkit.Equal(t, now.editedFor(rule, at.Add(wait)), 0, "after the last edit")

	// A rule that never comes to rest is followed now and then.
	for range 400 {
		rule.Generation++
		if now.editedFor(rule, at) <= 0 {
			passes++
		}
		at = at.Add(100 * time.Millisecond)
	}
	testkit.Equal(t, passes, 1)
}
