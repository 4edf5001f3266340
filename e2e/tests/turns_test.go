// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A test waits for a hub while the machine is overloaded and others have hubs. Tests begin in turn, and wait for two minutes at most.
func TestTurns(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		few    bool
		load   int64
		after  func(load *atomic.Int64, few *atomic.Bool)
		waited []time.Duration
	}{
		"nothing else to do": {load: 8, waited: []time.Duration{0, 0}},
		"few hubs":           {load: 40, few: true, waited: []time.Duration{0, 0}},
		"the load ends":      {load: 40, after: func(load *atomic.Int64, _ *atomic.Bool) { load.Store(1) }, waited: inTurns},
		"hubs come back":     {load: 40, after: func(_ *atomic.Int64, few *atomic.Bool) { few.Store(true) }, waited: inTurns},
		"all wait":           {load: 40, waited: []time.Duration{2 * time.Minute, 2 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var load atomic.Int64
				var few atomic.Bool
				load.Store(tc.load)
				few.Store(tc.few)
				turns := pool.NewTurns(func() float64 { return float64(load.Load()) })
				begin, waits := time.Now(), make(chan time.Duration)
				for range tc.waited {
					go func() {
						turns.Await(t.Context(), few.Load)
						waits <- time.Since(begin)
					}()
				}
				if tc.after != nil {
					time.AfterFunc(time.Second, func() { tc.after(&load, &few) })
				}
				testkit.Equal(t, []time.Duration{<-waits, <-waits}, tc.waited)
			})
		})
	}
}

var inTurns = []time.Duration{5 * time.Second, 10 * time.Second}
