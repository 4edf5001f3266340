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

// Turns are given by rank, in the order of asking among equals, and suspects go last and alone.
func TestTurns_Order(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := New(2, time.Hour)
		first, _ := turns.Acquire(t.Context(), RankNew)
		second, _ := turns.Acquire(t.Context(), RankNew)
		type taken struct {
			name    string
			release func()
		}
		got := make(chan taken)
		ask := func(name string, r Rank) {
			go func() {
				release, err := turns.Acquire(t.Context(), r)
				if err != nil {
					t.Errorf("take: %v", err)
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
			t.Errorf("%s got its turn beside another one", one.name)
		default:
		}
		failed()
		suspect := next()
		synctest.Wait()
		select {
		case one := <-got:
			t.Errorf("%s got its turn beside a suspect", one.name)
		default:
		}
		suspect()
		next()()
		want := []string{"known", "known too", "new", "failed", "suspect", "another suspect"}
		if !slices.Equal(order, want) {
			t.Errorf("order = %v, want %v", order, want)
		}
	})
}

// A turn ends by itself, and somebody who stops waiting takes none.
func TestTurns_Limits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := New(1, 5*time.Second)
		late, err := turns.Acquire(t.Context(), RankKnown)
		if err != nil {
			t.Fatalf("take: %v", err)
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.Acquire(impatient, RankKnown); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the context ended", err)
		}
		began := time.Now()
		release, err := turns.Acquire(t.Context(), RankSuspect)
		if err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("the turn came after %s (%v), want 4s", time.Since(began), err)
		}
		late() // does nothing any more
		release()
		release()
		if turns.free != 1 {
			t.Errorf("%d places are free, want 1", turns.free)
		}
	})
}
