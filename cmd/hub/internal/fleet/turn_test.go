// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// A turn begins and ends many times. Who awaits it gets a context of this time, which ends with ErrStandby; the end waits for all who
// work, and no longer than it may; who works on then does not keep the next turn from its beginning.
func TestTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closed := replica.ErrNotActive
		one := newTurn(func() error { return closed })
		testkit.ErrorIs(t, one.Check(), registry.ErrStandby, "before the turn")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := one.Await(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the wait ends with %v", err)
		}
		type turnNow struct {
			lasts context.Context //nolint:containedctx // Ends with the turn.
			ended func()
		}
		awaited := make(chan turnNow, 1)
		go func() {
			lasts, ended, _ := one.Await(t.Context())
			awaited <- turnNow{lasts, ended}
		}()
		synctest.Wait()
		closed = nil
		one.begin(t.Context())
		one.begin(t.Context()) // It has begun.
		first := <-awaited
		must(t, one.Check())
		must(t, first.lasts.Err())
		go func() {
			<-time.After(time.Minute)
			first.ended()
		}()
		began := time.Now()
		if !one.end(t.Context(), time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("the end comes after %s, want when all has ended", time.Since(began))
		}
		testkit.ErrorIs(t, context.Cause(first.lasts), registry.ErrStandby, "the end of the turn")
		if !one.end(t.Context(), 0) {
			t.Error("a turn that has ended ends")
		}
		one.begin(t.Context())
		_, ended, err := one.Await(t.Context())
		must(t, err)
		if one.end(t.Context(), time.Second) {
			t.Error("the end does not say that something works on")
		}
		one.begin(t.Context())
		if next, _, err := one.Await(t.Context()); err != nil || next.Err() != nil {
			t.Errorf("the next turn: %v", err)
		}
		ended()
	})
}

// What runs once moves when its writes have a response.
func TestTurn_AwaitsWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := newTurn(func() error { return nil })
		answered := one.Count()
		done := make(chan error, 1)
		go func() { done <- one.awaitWrites(t.Context()) }()
		<-time.After(time.Minute)
		if len(done) > 0 {
			t.Error("a write is in flight")
		}
		answered()
		must(t, <-done)
	})
}
