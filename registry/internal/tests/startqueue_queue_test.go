// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
)

func idle() bool { return false }

// Slots are granted by rank, in the order of the requests within a rank. Suspects are last, and run alone.
func TestStarts_Order(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := startqueue.New(2, time.Hour, idle)
		first, _ := queue.Acquire(t.Context(), startqueue.RankNew)
		second, _ := queue.Acquire(t.Context(), startqueue.RankNew)
		type taken struct {
			name    string
			release func()
		}
		got := make(chan taken)
		ask := func(name string, r startqueue.Rank) {
			go func() {
				release, err := queue.Acquire(t.Context(), r)
				if err != nil {
					t.Errorf("Acquire: %v", err)
				}
				got <- taken{name, release}
			}()
			synctest.Wait()
		}
		ask("suspect", startqueue.RankSuspect)
		ask("another suspect", startqueue.RankSuspect)
		ask("failed", startqueue.RankFailed)
		ask("new", startqueue.RankNew)
		ask("known", startqueue.RankKnown)
		ask("known too", startqueue.RankKnown)
		<-time.After(29 * time.Second) // After half a minute the suspects would not wait any longer.

		var order []string
		next := func() func() {
			one := <-got
			order = append(order, one.name)
			return one.release
		}
		first()
		known := next()
		second()
		knownToo := next()
		known()
		fresh := next()
		knownToo()
		failed := next()
		fresh()
		synctest.Wait()
		select {
		case one := <-got:
			t.Errorf("%s has a slot beside a suspect", one.name)
		default:
		}
		failed()
		suspect := next()
		synctest.Wait()
		select {
		case one := <-got:
			t.Errorf("%s has a slot beside a suspect", one.name)
		default:
		}
		suspect()
		next()()
		want := []string{"known", "known too", "new", "failed", "suspect", "another suspect"}
		if !slices.Equal(order, want) {
			t.Errorf("got order %v, want %v", order, want)
		}
	})
}

// A slot becomes free at its limit, and a canceled request takes no slot.
func TestStarts_Limits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := startqueue.New(1, 5*time.Second, idle)
		late, err := queue.Acquire(t.Context(), startqueue.RankKnown)
		must(t, err)
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		testkit.ErrorIs(t, testkit.Err(queue.Acquire(impatient, startqueue.RankKnown)), context.DeadlineExceeded)
		began := time.Now()
		release, err := queue.Acquire(t.Context(), startqueue.RankSuspect)
		if err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("slot granted after %s (%v), want 4s", time.Since(began), err)
		}
		late() // no effect after the limit
		release()
		release()
		expectFree(t, queue)
	})
}

// While the hub is overloaded, the queue gets narrower, down to one slot, and operations continue. Then it gets wider again.
func TestStarts_Overload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const capacity = 64
		var overloaded atomic.Bool
		queue := startqueue.New(capacity, time.Hour, overloaded.Load)
		ctx, cancel := context.WithCancel(t.Context())
		var running atomic.Int64
		for range 2 * capacity { // Each starts again when it has ended, as remotes that fail.
			go func() {
				for ctx.Err() == nil {
					release, err := queue.Acquire(ctx, startqueue.RankKnown)
					if err != nil {
						return
					}
					running.Add(1)
					<-time.After(500 * time.Millisecond)
					running.Add(-1)
					release()
				}
			}()
		}
		for _, step := range []struct {
			overloaded bool
			after      time.Duration
			least      int64
			most       int64
		}{
			{false, time.Second, capacity, capacity},
			{true, 3 * time.Second, 1, 1},
			{true, time.Minute, 1, 1},
			{false, 4 * time.Second, 2, 4},
			{false, 40 * time.Second, capacity, capacity},
			{true, 700 * time.Millisecond, capacity / 4, capacity / 4},
			{false, time.Minute, capacity, capacity},
		} {
			overloaded.Store(step.overloaded)
			<-time.After(step.after + time.Millisecond)
			synctest.Wait()
			if got := running.Load(); got < step.least || got > step.most || int(got) > queue.Width() {
				t.Errorf("overloaded %t for %s: %d operations at the same time (width %d), want %d to %d",
					step.overloaded, step.after, got, queue.Width(), step.least, step.most)
			}
		}
		cancel()
		<-time.After(time.Second)
		synctest.Wait()
		expectFree(t, queue)
	})
}

// A suspect runs alone in an overload, too.
func TestStarts_OverloadedSuspect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := startqueue.New(8, time.Hour, func() bool { return true })
		for range 3 {
			release, err := queue.Acquire(t.Context(), startqueue.RankSuspect)
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := queue.Acquire(ctx, startqueue.RankKnown); err == nil {
				t.Error("another operation has a slot beside the suspect")
			}
			cancel()
			release()
		}
		expectFree(t, queue)
	})
}

// expectFree expects that all slots are free: a suspect gets one at once, which runs alone.
func expectFree(t *testing.T, queue *startqueue.Queue) {
	t.Helper()
	now, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	release, err := queue.Acquire(now, startqueue.RankSuspect)
	if err != nil {
		t.Errorf("a slot is in use: %v", err)
		return
	}
	release()
}
