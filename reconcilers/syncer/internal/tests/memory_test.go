// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"reflect"
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
	m.Exists(up, down, "")
	m.Gone(up, "uid")
	if m.End(up, down, true) || m.Of(up).Lost != "uid" {
		t.Error("the deletion is forgotten")
	}
	m.Begin(up)
	if m.End(up, down, false) || m.Of(up).Lost != "uid" {
		t.Error("a write that failed has made a copy")
	}
	m.Begin(up)
	if before := m.Of(up).Copy; !m.End(up, down, true) || m.Of(up).Lost != "" || before == down {
		t.Error("a write has made no copy")
	}
	testkit.Equal(t, m.Of(up).Copy, down, "the copy")
}

// A copy that the cache lacks before its deletion is reported is waited for, for a limited time.
func TestAwaited(t *testing.T) {
	t.Parallel()
	const reportedWithin = 2 * time.Second
	m := memory.New()
	up, now := named("up"), time.Now()
	testkit.Equal(t, m.Awaited(up, now), 0, "a copy that was never seen is awaited")
	m.Exists(up, named("down"), "copy")
	if m.Awaited(up, now) != reportedWithin || m.Awaited(up, now.Add(time.Second)) != reportedWithin-time.Second {
		t.Error("the report is not awaited")
	}
	testkit.Equal(t, m.Awaited(up, now.Add(reportedWithin)), 0, "the report is awaited for too long")
	m.Exists(up, named("down"), "copy")
	testkit.Equal(t, m.Awaited(up, now.Add(reportedWithin)), reportedWithin, "the time of an earlier absence counts")
	m.Gone(up, "")
	testkit.Equal(t, m.Awaited(up, now), 0, "a copy whose deletion is reported is awaited")
}

// Nothing is left of an object that has gone, but its copies at earlier addresses, which have to go yet.
func TestForget(t *testing.T) {
	t.Parallel()
	m := memory.New()
	up, down := named("up"), named("down")
	m.Exists(up, down, "copy")
	m.Change(up, func(o *memory.Object) { o.Source, o.Deletes, o.Wrote.Desired, o.Refused = down, "copy", 1, 1 })
	m.Block(named("taken"), up)
	m.Former(up, named("earlier"))
	m.Gone(up, "uid")
	m.Forget(up)
	testkit.Equal(t, m.FormersOf(up), []types.NamespacedName{named("earlier")})
	testkit.Equal(t, m.Count(), 1, "copies")
	m.Left(up, named("earlier"))
	m.Forget(up)
	testkit.Equal(t, reflect.DeepEqual(m.Of(up), memory.Object{}), true, "nothing is left")
	testkit.Equal(t, m.Count(), 0, "copies")
	testkit.Equal(t, len(m.Unblock(named("taken"))), 0, "who waits")
}
