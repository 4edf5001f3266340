// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
)

// While the machine is overloaded and some tests have hubs, others wait: until that is over, and not for ever.
func TestTurns(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		few    bool
		load   int64
		after  func(load *atomic.Int64, few *atomic.Bool)
		waited time.Duration
	}{
		"nothing else to do": {load: 8},
		"few hubs":           {load: 40, few: true},
		"the load ends":      {load: 40, after: func(load *atomic.Int64, _ *atomic.Bool) { load.Store(1) }, waited: 5 * time.Second},
		"hubs come back":     {load: 40, after: func(_ *atomic.Int64, few *atomic.Bool) { few.Store(true) }, waited: 5 * time.Second},
		"all wait":           {load: 40, waited: 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var load atomic.Int64
				var few atomic.Bool
				load.Store(tc.load)
				few.Store(tc.few)
				turns := pool.NewTurns(func() float64 { return float64(load.Load()) })
				begin := time.Now()
				if tc.after != nil {
					time.AfterFunc(time.Second, func() { tc.after(&load, &few) })
				}
				turns.Await(t.Context(), few.Load)
				if waited := time.Since(begin); waited != tc.waited {
					t.Errorf("waited %s, want %s", waited, tc.waited)
				}
			})
		})
	}
}

// Tests that wait begin one after the other, since each changes the load of the next one.
func TestTurns_OneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := pool.NewTurns(func() float64 { return 40 })
		ended, cancel := context.WithCancel(t.Context())
		go turns.Await(t.Context(), func() bool { return ended.Err() != nil })
		synctest.Wait()
		done := make(chan struct{})
		go func() {
			defer close(done)
			turns.Await(t.Context(), func() bool { return true })
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("a second test has begun while the first one waits")
		default:
		}
		cancel()
		<-done
	})
}
