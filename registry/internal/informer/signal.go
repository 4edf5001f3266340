// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"sync"
	"sync/atomic"
)

// signal is something that happens once, or never. It is client-go's DoneChecker.
type signal struct {
	name   string
	raised atomic.Bool
	once   sync.Once
	done   chan struct{}
}

func newSignal(name string) *signal { return &signal{name: name, done: make(chan struct{})} }

// raise notes that it has happened.
func (s *signal) raise() {
	s.once.Do(func() {
		s.raised.Store(true)
		close(s.done)
	})
}

// end notes that it can no longer happen.
func (s *signal) end() { s.once.Do(func() { close(s.done) }) }

func (s *signal) happened() bool { return s.raised.Load() }

// Name returns the name.
func (s *signal) Name() string { return s.name }

// Done returns a channel that is closed when it has happened, or can no longer happen.
func (s *signal) Done() <-chan struct{} { return s.done }
