// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strconv"
	"testing"
	"time"
)

// asked is a Cluster whose Secret is read whenever it is not remembered. It counts the reads.
type asked struct {
	seen
	from     origin
	accepted bool
	rejected bool
	secret   string // its version
	cached   string // the version in the cache
	began    time.Time
	readings int
}

func newAsked() *asked {
	return &asked{
		from:  origin{cluster: "one"},
		began: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC),
	}
}

// reconcile returns the version in use, and the time of the next read.
func (a *asked) reconcile(at time.Duration) (version string, later time.Duration) {
	q := question{from: a.from, version: a.cached, now: a.began.Add(at), accepted: a.accepted, rejected: a.rejected}
	known, due, ok := a.recall(q)
	if !ok {
		a.readings++
		known = reading{version: a.secret}
		a.remember(q, known)
	}
	if due.IsZero() {
		return known.version, 0
	}
	return known.version, due.Sub(a.began)
}

func (a *asked) expect(t *testing.T, at time.Duration, version string, readings int) {
	t.Helper()
	if got, later := a.reconcile(at); got != version || a.readings != readings {
		t.Errorf("after %s: got version %s after %d reads (again at %s), want %s after %d", at, got, a.readings, later, version, readings)
	}
}

func (a *asked) change(version int) {
	a.secret, a.cached = strconv.Itoa(version), strconv.Itoa(version)
}

func TestMemory(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	t.Run("the same Secret, read in the same way, is not read again", func(t *testing.T) {
		t.Parallel()
		a := newAsked()
		for _, version := range []string{"1", ""} { // or does not exist
			a.secret, a.cached = version, version
			a.seen.secret = nil
			a.readings = 0
			a.expect(t, 0, version, 1)
			a.expect(t, time.Hour, version, 1)
		}
		a.from.generation++
		a.expect(t, time.Hour, "", 2)
		a.from.cluster = "another one of that name"
		a.expect(t, time.Hour, "", 3)
	})
	t.Run("of many changes the first is read at once, and then the last of each two seconds", func(t *testing.T) {
		t.Parallel()
		a := newAsked()
		a.change(1)
		a.expect(t, 0, "1", 1)
		var wait time.Duration
		for i := range 100 { // in ten seconds
			a.change(i + 2)
			_, wait = a.reconcile(time.Duration(i) * 100 * ms)
		}
		a.expect(t, wait, "101", 7) // 1 at first, then after 0, 2, 4, 6, 8 and 10 s
		a.expect(t, wait+ms, "101", 7)
		a.change(200)
		a.expect(t, time.Hour, "200", 8)
	})
	t.Run("a change right after the first reading is read at once", func(t *testing.T) {
		t.Parallel()
		a := newAsked()
		a.expect(t, 0, "", 1)
		a.change(1)
		a.expect(t, 10*ms, "1", 2)
	})
	t.Run("a cache that is behind is waited for", func(t *testing.T) {
		t.Parallel()
		a := newAsked()
		a.secret, a.cached = "10", "9"
		a.expect(t, 0, "10", 1)
		a.expect(t, 10*ms, "10", 1)
		a.cached = "10"
		a.expect(t, 20*ms, "10", 1)
		a.change(11)
		a.expect(t, 30*ms, "11", 2)
		a.change(5) // The hub's API server was restored from a backup.
		a.expect(t, 40*ms, "11", 2)
		a.expect(t, 3*time.Second, "5", 3)
	})
	t.Run("a rejection is answered by one reading, at once", func(t *testing.T) {
		t.Parallel()
		a := newAsked()
		a.change(1)
		a.expect(t, 0, "1", 1)
		a.change(2)
		a.expect(t, 10*ms, "2", 2)
		a.rejected, a.secret = true, "3" // not delivered by a watch
		a.expect(t, 20*ms, "3", 3)
		a.expect(t, 30*ms, "3", 3)
		a.cached = "3"
		a.expect(t, time.Hour, "3", 3)
		a.rejected = false // The remote cannot be reached, so nothing is known.
		a.expect(t, time.Hour, "3", 3)
		a.rejected = true
		a.expect(t, time.Hour, "3", 3)
		a.accepted, a.rejected = true, false
		a.expect(t, time.Hour, "3", 3)
		a.accepted, a.rejected = false, true
		a.expect(t, time.Hour, "3", 4)
		a.expect(t, 2*time.Hour, "3", 4)
	})
}
