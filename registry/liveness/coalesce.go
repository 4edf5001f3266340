// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// errand calls a function, possibly a module's, that the monitor must not wait for: in its own goroutine, one call at a
// time. A call that is requested while the function runs follows it; several such requests become one call.
type errand struct {
	f     func()
	state atomic.Int32
}

// States of an errand.
const (
	errandIdle int32 = iota
	errandRuns
	errandWanted
)

// start has the function called. It returns at once; owner waits for the goroutine.
func (e *errand) start(owner *sync.WaitGroup, log logr.Logger) {
	for {
		if e.state.CompareAndSwap(errandIdle, errandRuns) {
			owner.Go(func() { e.run(log) })
			return
		}
		if e.state.CompareAndSwap(errandRuns, errandWanted) || e.state.Load() == errandWanted {
			return
		}
	}
}

func (e *errand) run(log logr.Logger) {
	for {
		e.call(log)
		if e.state.CompareAndSwap(errandRuns, errandIdle) {
			return
		}
		e.state.Store(errandRuns)
	}
}

// call calls the function. A panic is logged; the heartbeat is missed then.
func (e *errand) call(log logr.Logger) {
	defer func() {
		if r := recover(); r != nil {
			log.Error(fmt.Errorf("panic: %v", r), "Failed to send a heartbeat or to report a missed one", "stack", string(debug.Stack()))
		}
	}()
	e.f()
}
