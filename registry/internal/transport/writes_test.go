// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func awaits(t *testing.T, w *Writes, name string) time.Duration {
	t.Helper()
	began := time.Now()
	if err := w.Await(t.Context(), name); err != nil {
		t.Errorf("Await: got error %v", err)
	}
	return time.Since(began)
}

func expectNothingKept(t *testing.T, w *Writes) {
	t.Helper()
	if n := len(w.flying); n > 0 {
		t.Errorf("%d remotes are kept", n)
	}
}

// Await returns at once without a write, and when the last write ends otherwise.
func TestWrites_Await(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWrites()
		if took := awaits(t, w, "one"); took != 0 {
			t.Errorf("without a write: took %s", took)
		}
		for name, after := range map[string][]time.Duration{"one": {2 * time.Second, time.Second}, "other": {time.Hour}} {
			for _, d := range after {
				end := w.Of(name)(time.Minute)
				time.AfterFunc(d, func() { end(true) })
			}
		}
		if took := awaits(t, w, "one"); took != 2*time.Second {
			t.Errorf("with two writes: took %s, want 2s", took)
		}
		if took := awaits(t, w, "one"); took != 0 {
			t.Errorf("after two writes: took %s", took)
		}
		awaits(t, w, "other")
		expectNothingKept(t, w)
	})
}

// A write of which nothing is known counts until its own time is over, from its own beginning.
func TestWrite_EndAfter(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Second
	for gaveUp, want := range map[time.Duration]time.Duration{
		0: timeout, 3 * time.Second: 7 * time.Second, timeout: 0, time.Minute: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Hour) //nolint:forbidigo // The clock of the test.
			w := NewWrites()
			time.Sleep(time.Hour) //nolint:forbidigo // The clock of the test.
			end := w.Of("one")(timeout)
			<-time.After(gaveUp)
			end(false)
			if took := awaits(t, w, "one"); took != want {
				t.Errorf("given up after %s: took %s, want %s", gaveUp, took, want)
			}
			expectNothingKept(t, w)
		})
	}
}

// Await returns the cause of its context with the number of writes, and leaves nothing behind. All calls return when the last
// write ends.
func TestWrites_AwaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errTired := errors.New("tired")
		w := NewWrites()
		one := w.Of("one")
		all := []func(bool){one(time.Minute), one(time.Minute), one(time.Minute)}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errTired)
		defer cancel()
		err := w.Await(ctx, "one")
		if !errors.Is(err, errTired) || !strings.Contains(err.Error(), "of which 3 are in flight") {
			t.Errorf("got error %v, want the cause and 3 writes", err)
		}
		if err := w.Await(ctx, "none"); err != nil {
			t.Errorf("an ended context, and no write: got error %v", err)
		}
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() { awaits(t, w, "one") })
		}
		synctest.Wait()
		for _, end := range all {
			end(true)
		}
		waiting.Wait()
		if err := w.Await(ctx, "one"); err != nil {
			t.Errorf("an ended context, and no write left: got error %v", err)
		}
		expectNothingKept(t, w)
	})
}

// Writes that end while the context of Await ends are no error.
func TestWrites_EndAndContextAtOnce(t *testing.T) {
	t.Parallel()
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			w := NewWrites()
			end := w.Of("one")(time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, func() {
				end(true)
				cancel()
			})
			if err := w.Await(ctx, "one"); err != nil {
				t.Errorf("got error %v", err)
			}
		})
	}
}

// Nil counts nothing.
func TestWrites_Nil(t *testing.T) {
	t.Parallel()
	var w *Writes
	if w.Of("one") != nil {
		t.Error("it counts")
	}
	if err := w.Await(t.Context(), "one"); err != nil {
		t.Errorf("got error %v", err)
	}
}

// After a gate has closed and Await has returned, no write is under way, however many there were.
func TestWrites_Gate(t *testing.T) {
	t.Parallel()
	w := NewWrites()
	for name := range 20 {
		var closed atomic.Bool
		var under atomic.Int64
		var writers sync.WaitGroup
		remote := w.Of(strconv.Itoa(name % 3)) // Names return.
		for range 8 {
			writers.Go(func() {
				for !writeUnless(remote, &closed, &under) {
					runtime.Gosched()
				}
			})
		}
		runtime.Gosched()
		closed.Store(true)
		awaits(t, w, strconv.Itoa(name%3))
		if n := under.Load(); n != 0 {
			t.Errorf("%d writes are under way", n)
		}
		writers.Wait()
	}
	expectNothingKept(t, w)
}

// writeUnless writes unless the gate is closed, and reports whether it is.
func writeUnless(remote WriteCounter, closed *atomic.Bool, under *atomic.Int64) bool {
	end := remote(time.Minute)
	defer end(true)
	if closed.Load() {
		return true
	}
	under.Add(1)
	for range rand.IntN(10) {
		runtime.Gosched()
	}
	under.Add(-1)
	return false
}
