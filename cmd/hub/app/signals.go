// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
)

// signals ends the program: the first SIGINT or SIGTERM ends a context, the second one ends the process as the signal
// does by default, after the last words.
type signals struct {
	received  chan os.Signal
	raise     func(os.Signal)
	lastWords atomic.Pointer[func()]
}

// newSignals takes over SIGINT and SIGTERM. The context ends with the first of them. stop gives both back.
func newSignals(ctx context.Context) (ended context.Context, s *signals, stop func()) {
	s = &signals{received: make(chan os.Signal, 2), raise: raise}
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
func (s *signals) run(ctx context.Context, first func()) {
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

// say sets what is done before a second signal ends the process; it returns soon whatever happens. It may be called on
// nil.
func (s *signals) say(lastWords func()) {
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
