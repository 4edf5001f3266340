// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// coalescedCall calls a function that the monitor must not wait for, possibly a module's, in its own goroutine.
// Requests during a call become one more call.
type coalescedCall struct {
	f     func()
	state atomic.Int32
}

const (
	callIdle int32 = iota
	callRunning
	callPending
)

// start returns at once; owner waits for the goroutine.
func (c *coalescedCall) start(owner *sync.WaitGroup, log logr.Logger) {
	for {
		if c.state.CompareAndSwap(callIdle, callRunning) {
			owner.Go(func() { c.run(log) })
			return
		}
		if c.state.CompareAndSwap(callRunning, callPending) || c.state.Load() == callPending {
			return
		}
	}
}

func (c *coalescedCall) run(log logr.Logger) {
	for {
		c.call(log)
		if c.state.CompareAndSwap(callRunning, callIdle) {
			return
		}
		c.state.Store(callRunning)
	}
}

// A panic is logged, and the heartbeat is missed.
func (c *coalescedCall) call(log logr.Logger) {
	defer func() {
		if r := recover(); r != nil {
			log.Error(fmt.Errorf("panic: %v", r), "Failed to send a heartbeat or to report a missed one", "stack", string(debug.Stack()))
		}
	}()
	c.f()
}
