// SPDX-License-Identifier: Apache-2.0

package app

import "time"

// source is what a module watches beside the cache.
type source struct {
	module string
	blind  func(now time.Time) string
}

// AddSource adds a source of a module until remove is called. blind returns the kind of its objects if they are not
// current, otherwise nothing; it must return at once.
func (l *Life) AddSource(module string, blind func(now time.Time) string) (remove func()) {
	one := &source{module, blind}
	l.sources.Store(one, nil)
	return func() { l.sources.Delete(one) }
}

func (l *Life) blindSource(module string, now time.Time) (kind string) {
	l.sources.Range(func(one, _ any) bool {
		if s, _ := one.(*source); s.module == module {
			kind = s.blind(now)
		}
		return kind == ""
	})
	return kind
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
