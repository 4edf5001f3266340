// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/memory"
)

const field = "spec.replicas"

// start is a time without a monotonic clock.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// contended returns a Memory with a fight over a key that began at the start, and the pause of it.
func contended(t testing.TB, key string) *memory.Memory {
	t.Helper()
	d := memory.New()
	for i := range memory.Flips {
		if wait := d.Flip(named(key), field, start); wait != 0 {
			t.Fatalf("flip %d: wait %s", i, wait)
		}
	}
	if wait := d.Flip(named(key), field, start); wait != memory.FirstPause {
		t.Fatalf("wait %s after %d flips", wait, memory.Flips+1)
	}
	return d
}

// TestContention_Fight plays the part of a caller whose every write is undone at once: the times of the writes are the free flips, and
// then pauses that double up to a minute.
func TestContention_Fight(t *testing.T) {
	t.Parallel()
	d := memory.New()
	var writes []float64
	for now := start; now.Before(at(400)); {
		wait := d.Flip(named("a"), field, now)
		if wait == 0 {
			writes = append(writes, now.Sub(start).Seconds())
			wait = time.Millisecond // Until the other client has undone the write.
		}
		now = now.Add(wait)
	}
	want := []float64{0, .001, .002, .003, .004, 1.005, 3.005, 7.005, 15.005, 31.005, 63.005, 123.005, 183.005, 243.005, 303.005, 363.005}
	testkit.Equal(t, writes, want, "seconds of the writes")
}

func TestContention_FlipsOutsideTheWindow(t *testing.T) {
	t.Parallel()
	d := memory.New()
	for i := range 100 {
		if wait := d.Flip(named("a"), field, at(float64(i)*12)); wait != 0 { // Five per minute.
			t.Fatalf("flip %d: wait %s", i, wait)
		}
	}
	if wait := d.Flip(named("a"), field, at(99*12+11.9)); wait != time.Second { // The sixth in less than a minute.
		t.Errorf("wait %s", wait)
	}
}

func TestContention_FieldsAndKeysCountSeparately(t *testing.T) {
	t.Parallel()
	d := memory.New()
	for i := range memory.Flips {
		for _, key := range []string{"a", "b"} {
			for _, name := range []string{"x", "y", "z"} {
				if wait := d.Flip(named(key), name, start); wait != 0 {
					t.Fatalf("flip %d of %s of %s: wait %s", i, name, key, wait)
				}
			}
		}
	}
	testkit.Equal(t, d.Flip(named("a"), "y", start), time.Second, "one flip too many: wait")
	testkit.Equal(t, d.Flip(named("a"), "z", at(.25)), 750*time.Millisecond, "another field of the contended object: wait")
	testkit.Equal(t, d.Flip(named("c"), "y", start), 0, "another object: wait")
}

// TestContention_ManyFields tests a client that flips another field each time.
func TestContention_ManyFields(t *testing.T) {
	t.Parallel()
	d := memory.New()
	writes := 0
	for i := range 1000 {
		if d.Flip(named("a"), fmt.Sprint("metadata.labels.", i), at(float64(i)/100)) == 0 {
			writes++
		}
	}
	if writes > 40 {
		t.Errorf("%d writes in ten seconds", writes)
	}
	for i := range 1000 {
		if wait := d.Flip(named("b"), fmt.Sprint("metadata.labels.", i), at(float64(i)*13)); wait != 0 {
			t.Fatalf("a slow client makes the wait %s", wait)
		}
	}
}

func TestContention_Quiet(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what    string
		seconds float64 // of a flip after the first pause, which ends at 1
		next    time.Duration
	}{
		{"in the pause", .5, 500 * time.Millisecond},
		{"after a minute of quiet", 61, 0},
		{"within a minute", 60.5, 2 * time.Second},
	} {
		d := contended(t, "a")
		wait := d.Flip(named("a"), field, at(test.seconds))
		if wait == 0 {
			wait = d.Flip(named("a"), field, at(test.seconds))
		}
		testkit.Equal(t, wait, test.next, test.what, "wait")
	}
}

func TestContention_Forget(t *testing.T) {
	t.Parallel()
	d := contended(t, "a")
	d.Forget(named("a"))
	d.Forget(named("b"))
	testkit.Equal(t, d.Flip(named("a"), field, at(.1)), 0, "wait")
}

// Of more objects that fight than a remote can have, the oldest are forgotten.
func TestContention_BoundedMemory(t *testing.T) {
	t.Parallel()
	d := contended(t, "a")
	for i := range 10_000 {
		testkit.Equal(t, d.Flip(named(strconv.Itoa(i)), field, start), 0, "wait of another object")
	}
	testkit.Equal(t, d.Flip(named("a"), field, start), 0, "wait")
}

func TestContention_ClockSetBack(t *testing.T) {
	t.Parallel()
	d := contended(t, "a")
	testkit.Equal(t, d.Flip(named("a"), field, at(-3600)), time.Second, "wait")
}

// TestContention_WritesAreBounded tests that no sequence of flips gets more writes in a minute than the limits allow: five for each of at
// most 17 counts, and in a fight those between the pauses.
func TestContention_WritesAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := memory.New()
		longest := rapid.SampledFrom([]int{10, 1000, 20_000, 90_000}).Draw(t, "longest")
		steps := rapid.SliceOfN(rapid.IntRange(0, longest), 50, 300).Draw(t, "milliseconds")
		fields := rapid.IntRange(1, 40).Draw(t, "fields")
		now, limit := start, memory.Flips*min(fields, 17)+6
		var writes []time.Time
		for i, step := range steps {
			now = now.Add(time.Duration(step) * time.Millisecond)
			wait := d.Flip(named("a"), fmt.Sprint(i%fields), now)
			if wait < 0 || wait > memory.LongestPause {
				t.Fatalf("wait %s", wait)
			}
			if wait == 0 {
				writes = append(writes, now)
			}
			if n := len(writes); n > limit && now.Sub(writes[n-1-limit]) < memory.Window {
				t.Fatalf("%d writes in %s", limit+1, now.Sub(writes[n-1-limit]))
			}
		}
	})
}

func TestContention_ConcurrentUse(t *testing.T) {
	t.Parallel()
	d := memory.New()
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 1000 {
				d.Flip(named(strconv.Itoa(i%(worker+3))), field, at(float64(i)))
				if i%10 == 0 {
					d.Forget(named(strconv.Itoa(i % 7)))
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkContention_Record(b *testing.B) {
	d := memory.New()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d.Flip(named(strconv.Itoa(i)), field, start)
	}
}
