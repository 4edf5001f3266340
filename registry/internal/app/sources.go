// SPDX-License-Identifier: Apache-2.0

package app

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// sources are what modules watch beside the cache.
type sources struct {
	mu    sync.Mutex // protects the field
	blind map[*blindness]struct{}
}

type blindness struct {
	module string
	of     func(now time.Time) string
}

// AddSource adds a source of a module until remove is called. blind returns the kind of its objects if they are not
// current, otherwise nothing; it must return at once.
func (l *Life) AddSource(module string, blind func(now time.Time) string) (remove func()) {
	s, one := &l.sources, &blindness{module, blind}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blind == nil {
		s.blind = map[*blindness]struct{}{}
	}
	s.blind[one] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.blind, one)
	}
}

// Go runs f in a goroutine of the Life; f must return when the context of the Life ends. If it has ended, Go returns
// false and does not call f.
func (l *Life) Go(f func()) bool {
	if l.ctx.Err() != nil || !l.hooks.hold() {
		return false
	}
	go func() {
		defer l.hooks.running.Done()
		f()
	}()
	return true
}

func (s *sources) blindIn(module string, now time.Time) string {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.blind))
	s.mu.Unlock()
	for _, one := range all {
		if one.module != module {
			continue
		}
		if kind := one.of(now); kind != "" {
			return kind
		}
	}
	return ""
}
