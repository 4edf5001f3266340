// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/memory"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// All objects that wait for a name are requested when it is free, once.
func TestSeveralWaitForOneName(t *testing.T) {
	t.Parallel()
	m := memory.New()
	for _, up := range []string{"a", "b", "a"} {
		m.Block(named("taken"), named(up))
	}
	waiting := m.Unblock(named("taken"))
	slices.SortFunc(waiting, func(a, b types.NamespacedName) int {
		return len(a.Name) - len(b.Name) + int(a.Name[0]) - int(b.Name[0])
	})
	testkit.Equal(t, waiting, []types.NamespacedName{named("a"), named("b")})
	testkit.Equal(t, len(m.Unblock(named("taken"))), 0, "unblocked again")
}

// A deletion that is known before the answer to the write is not forgotten because of the answer.
func TestGoneWhileItIsWritten(t *testing.T) {
	t.Parallel()
	m := memory.New()
	up, down := named("up"), named("down")
	m.Begin(up)
	m.Exists(up, down)
	m.Gone(up, "uid")
	if m.End(up, down, true) || !m.IsLost(up, "uid") {
		t.Error("the deletion is forgotten")
	}
	m.Begin(up)
	if m.End(up, down, false) || !m.IsLost(up, "uid") {
		t.Error("a write that failed has made a copy")
	}
	m.Begin(up)
	if name, _ := m.NameOf(up); !m.End(up, down, true) || m.IsLost(up, "uid") || name == down {
		t.Error("a write has made no copy")
	}
	if name, ok := m.NameOf(up); !ok || name != down {
		t.Errorf("the copy is %v", name)
	}
}

// Another client deletes a copy if the copy was seen before, and the controller does not delete it itself.
func TestWhoDeletes(t *testing.T) {
	t.Parallel()
	m := memory.New()
	up := named("up")
	if m.Lived(up, "a") || m.Lived(up, "") || m.IsOwn(up, "") {
		t.Error("an unknown copy is known")
	}
	m.Lives(up, "a")
	m.Deletes(up, "a")
	if !m.Lived(up, "a") || m.Lived(up, "b") || !m.IsOwn(up, "a") || m.IsOwn(up, "b") {
		t.Error("the copy is another one")
	}
	m.Spares(up)
	if m.IsOwn(up, "a") {
		t.Error("a delete that was refused is remembered")
	}
	m.Deletes(up, "a")
	m.Block(named("taken"), up)
	m.Forget(up)
	if m.IsOwn(up, "a") || m.Lived(up, "a") || len(m.Unblock(named("taken"))) > 0 {
		t.Error("something is left of an object that has gone")
	}
}

// A copy that the cache lacks before its deletion is reported is waited for, for a limited time.
func TestAwaited(t *testing.T) {
	t.Parallel()
	const reportedWithin = 2 * time.Second
	m := memory.New()
	up, now := named("up"), time.Now()
	testkit.Equal(t, m.Awaited(up, now), 0, "a copy that was never seen is awaited")
	m.Lives(up, "copy")
	if m.Awaited(up, now) != reportedWithin || m.Awaited(up, now.Add(time.Second)) != reportedWithin-time.Second {
		t.Error("the report is not awaited")
	}
	testkit.Equal(t, m.Awaited(up, now.Add(reportedWithin)), 0, "the report is awaited for too long")
	m.Lives(up, "copy")
	testkit.Equal(t, m.Awaited(up, now.Add(reportedWithin)), reportedWithin, "the time of an earlier absence counts")
	m.Gone(up, "")
	testkit.Equal(t, m.Awaited(up, now), 0, "a copy whose deletion is reported is awaited")
}

// Nothing is left of an object that has gone.
func TestForget_LeavesNothing(t *testing.T) {
	t.Parallel()
	m := memory.New()
	up, down := named("up"), named("down")
	m.Exists(up, down)
	m.IsSource(up, down)
	m.Wrote(up, func(w *memory.Write) { w.Desired = 1 })
	m.Gone(up, "uid")
	m.Forget(up)
	_, isSource := m.SourceOf(up)
	if isSource || m.Count() > 0 || m.IsLost(up, "uid") || m.Last(up).Desired != 0 {
		t.Error("something is left of an object that has gone")
	}
}
