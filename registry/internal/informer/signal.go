// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"sync"
	"sync/atomic"
)

// signal happens once, or never. It is client-go's DoneChecker.
type signal struct {
	name   string
	raised atomic.Bool
	once   sync.Once
	done   chan struct{}
}

func newSignal(name string) *signal { return &signal{name: name, done: make(chan struct{})} }

func (s *signal) raise() {
	s.once.Do(func() {
		s.raised.Store(true)
		close(s.done)
	})
}

func (s *signal) end() { s.once.Do(func() { close(s.done) }) }

func (s *signal) happened() bool { return s.raised.Load() }

func (s *signal) Name() string { return s.name }

func (s *signal) Done() <-chan struct{} { return s.done }
