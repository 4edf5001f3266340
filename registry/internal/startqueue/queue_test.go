// SPDX-License-Identifier: Apache-2.0

package startqueue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Slots are granted by rank, in the order of the requests within a rank. Suspects are last, and run alone.
func TestQueue_Order(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := New(2, time.Hour)
		first, _ := queue.Acquire(t.Context(), RankNew)
		second, _ := queue.Acquire(t.Context(), RankNew)
		type taken struct {
			name    string
			release func()
		}
		got := make(chan taken)
		ask := func(name string, r Rank) {
			go func() {
				release, err := queue.Acquire(t.Context(), r)
				if err != nil {
					t.Errorf("Acquire: %v", err)
				}
				got <- taken{name, release}
			}()
			synctest.Wait()
		}
		ask("suspect", RankSuspect)
		ask("another suspect", RankSuspect)
		ask("failed", RankFailed)
		ask("new", RankNew)
		ask("known", RankKnown)
		ask("known too", RankKnown)

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
func TestQueue_Limits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := New(1, 5*time.Second)
		late, err := queue.Acquire(t.Context(), RankKnown)
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := queue.Acquire(impatient, RankKnown); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
		began := time.Now()
		release, err := queue.Acquire(t.Context(), RankSuspect)
		if err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("slot granted after %s (%v), want 4s", time.Since(began), err)
		}
		late() // no effect after the limit
		release()
		release()
		if queue.free != 1 {
			t.Errorf("got %d free slots, want 1", queue.free)
		}
	})
}
