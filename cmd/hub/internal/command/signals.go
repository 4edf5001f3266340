// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
)

// Signals ends the program: the first SIGINT or SIGTERM ends a context, the second one ends the process as the signal
// does by default, after the last words. A hub that receives the first one releases its Lease and stops its apps, which takes
// seconds; who presses Ctrl-C again does not wait for that.
type Signals struct {
	received  chan os.Signal
	raise     func(os.Signal)
	lastWords atomic.Pointer[func()]
}

// Notify takes over SIGINT and SIGTERM. The context ends with the first of them. stop gives both back.
func Notify(ctx context.Context) (ended context.Context, s *Signals, stop func()) {
	s = &Signals{received: make(chan os.Signal, 2), raise: raise}
	signal.Notify(s.received, os.Interrupt, syscall.SIGTERM)
	ended, cancel := context.WithCancel(ctx)
	watching, over := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { s.run(watching, cancel) })
	return ended, s, func() {
		signal.Stop(s.received)
		over()
		running.Wait()
		cancel()
	}
}

// run waits for signals until ctx ends.
func (s *Signals) run(ctx context.Context, first func()) {
	select {
	case <-s.received:
		first()
	case <-ctx.Done():
		return
	}
	select {
	case second := <-s.received:
		if say := s.lastWords.Load(); say != nil {
			(*say)()
		}
		s.raise(second)
	case <-ctx.Done():
	}
}

// BeforeExit sets the function that runs before a second signal ends the process; it must return soon. It may be called on
// nil.
func (s *Signals) BeforeExit(lastWords func()) {
	if s != nil {
		s.lastWords.Store(&lastWords)
	}
}

// raise makes the process end as it does by default with that signal.
func raise(s os.Signal) {
	signal.Reset(s)
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Signal(s)
	}
}
