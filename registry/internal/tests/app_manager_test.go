// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Caches start first. When they have synced, all other runnables start, a Warmup delays no Start, and the manager is elected.
func TestManager_StartsInOrder(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, s *recorded) {
		other := &fakeCache{part: s.part("other cache"), synced: make(chan struct{})}
		leader, always, c := s.part("leader"), unelected{s.part("always")}, s.controller("controller")
		s.add(leader)
		s.add(c)
		s.add(always)
		s.add(withCache{other})
		s.expect()
		s.start()
		s.expect("cache starts", "other cache starts")
		close(s.cache.synced)
		s.expect()
		if s.isElected() {
			t.Fatal("the manager is elected before its caches have synced")
		}
		close(other.synced)
		s.expect("always starts", "leader starts", "controller warms up", "controller starts")
		if !s.isElected() {
			t.Error("the manager is not elected after its start")
		}
		c.warm <- nil
		s.expect("controller is warm")
		s.expectRunning()
		for _, one := range []*part{s.cache.part, other.part, leader, always.part, c.part} {
			close(one.release)
		}
		s.cancel()
		s.expectEnd(nil)
	})
}

// At the end of the context runnables end step by step, each step when the step before has returned, and Start returns after
// the last of them.
func TestManager_StopsInOrder(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, s *recorded) {
		leader, always, c := s.part("leader"), unelected{s.part("always")}, s.controller("controller")
		s.add(leader)
		s.add(always)
		s.add(c)
		close(s.cache.synced)
		s.start()
		s.happened()
		s.cancel()
		s.expect("always is canceled", "controller's warm-up is canceled")
		close(always.release)
		s.expect("leader is canceled", "controller is canceled")
		close(leader.release)
		s.expect()
		close(c.release)
		c.warm <- nil
		s.expect("cache is canceled")
		s.expectRunning()
		close(s.cache.release)
		s.expectEnd(nil)
	})
}

// A controller has a lock while it starts its sources, and does not look at its context while it waits for the lock. The stop
// does not wait for the call that waits for the lock before the other call ends.
func TestManager_StopsControllersThatHoldLocks(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]*locking{
		"Warmup has the lock, elected":   {elected: true, first: "Warmup"},
		"Start has the lock, elected":    {elected: true, first: "Start"},
		"Warmup has the lock, unelected": {first: "Warmup"},
		"Start has the lock, unelected":  {first: "Start"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withBoth(t, func(_ *testing.T, s *recorded) {
				c := &locking{elected: one.elected, first: one.first, free: make(chan struct{})}
				s.add(c)
				s.startSynced()
				s.expect("cache starts")
				s.cancel()
				s.expect("cache is canceled")
				s.expectEnd(nil)
			})
		})
	}
}

// The error of any runnable ends the manager, also of one that was added late, and is the result of Start. All others are
// canceled and awaited.
func TestManager_EndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	for name, choose := range map[string]func(*recorded) (manager.Runnable, func()){
		"leader": func(s *recorded) (manager.Runnable, func()) {
			p := s.part("failing")
			return p, func() { p.fail <- errFailed }
		},
		"always": func(s *recorded) (manager.Runnable, func()) {
			p := s.part("failing")
			return unelected{p}, func() { p.fail <- errFailed }
		},
		"warm-up": func(s *recorded) (manager.Runnable, func()) {
			c := s.controller("failing")
			close(c.release)
			return c, func() { c.warm <- errFailed }
		},
		"other cache": func(s *recorded) (manager.Runnable, func()) {
			c := &fakeCache{part: s.part("failing"), synced: make(chan struct{})}
			close(c.synced)
			return withCache{c}, func() { c.fail <- errFailed }
		},
		"the cache": func(s *recorded) (manager.Runnable, func()) {
			return s.part("idle"), func() { s.cache.fail <- errFailed }
		},
	} {
		for when, late := range map[string]bool{"added before Start": false, "added after Start": true} {
			t.Run(name+"/"+when, func(t *testing.T) {
				t.Parallel()
				withBoth(t, func(t *testing.T, s *recorded) {
					r, fail := choose(s)
					if p, ok := r.(*part); ok && p.name == "idle" {
						close(p.release)
					} else {
						close(s.cache.release)
					}
					other := s.part("other")
					s.add(other)
					close(s.cache.synced)
					if !late {
						s.add(r)
					}
					s.start()
					if late {
						s.add(r)
					}
					synctest.Wait()
					fail()
					if !slices.Contains(s.happened(), "other is canceled") {
						t.Fatal("the other runnable is not canceled")
					}
					s.expectRunning()
					close(other.release)
					s.expectEnd(errFailed)
				})
			})
		}
	}
}

// Of several errors the first is the result, and the others are logged.
func TestManager_LogsErrorsOfTheStop(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, s *recorded) {
		first, second := s.part("first"), s.part("second")
		s.add(first)
		s.add(second)
		s.startSynced()
		first.fail <- errFailed
		s.happened()
		second.fail <- errors.New("another error")
		s.expectEnd(errFailed)
		logged := func(line string) bool { return strings.Contains(line, "another error") }
		if got := s.lines(); !slices.ContainsFunc(got, logged) {
			t.Errorf("got the log %q, want the second error", got)
		}
	})
}

// An error after the end of the context is no result of Start; it is logged.
func TestManager_ReturnsNilAtTheEndOfTheContext(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, s *recorded) {
		p := s.part("leader")
		s.add(p)
		s.startSynced()
		s.cancel()
		s.happened()
		p.fail <- errFailed
		s.expectEnd(nil)
		logged := func(line string) bool { return strings.Contains(line, "failed") }
		if got := s.lines(); !slices.ContainsFunc(got, logged) {
			t.Errorf("got the log %q, want the error", got)
		}
	})
}

// A runnable that is added to a manager that runs starts at once, whatever it needs.
func TestManager_StartsLateRunnables(t *testing.T) {
	t.Parallel()
	withBoth(t, func(_ *testing.T, s *recorded) {
		s.startSynced()
		s.expect("cache starts")
		leader, always, c := s.part("leader"), unelected{s.part("always")}, s.controller("controller")
		other := &fakeCache{part: s.part("other cache"), synced: make(chan struct{})}
		s.add(withCache{other}) // Nothing waits for it to sync.
		s.add(leader)
		s.add(always)
		s.add(c)
		s.expect("other cache starts", "leader starts", "always starts", "controller warms up", "controller starts")
		for _, one := range []*part{leader, always.part, c.part, other.part} {
			close(one.release)
		}
		c.warm <- nil
		s.cancel()
		s.expectEnd(nil)
	})
}

// A manager that stops or has stopped takes no runnable.
func TestManager_RefusesAfterTheStop(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, s *recorded) {
		always := unelected{s.part("always")}
		s.add(always)
		s.startSynced()
		s.cancel()
		s.happened()
		if err := s.Add(unelected{s.part("late")}); err == nil {
			t.Error("Add while the manager stops: got no error")
		}
		close(always.release)
		s.expectEnd(nil)
		for _, late := range []manager.Runnable{s.part("late"), unelected{s.part("late")}, s.controller("late")} {
			if err := s.Add(late); err == nil {
				t.Errorf("Add of a %T after the stop: got no error", late)
			}
		}
		s.expect("cache is canceled")
	})
}

// A manager starts once.
func TestManager_StartsOnce(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, s *recorded) {
		s.startSynced()
		if err := s.Start(t.Context()); err == nil {
			t.Error("second Start: got no error")
		}
		s.expectRunning()
		s.cancel()
		s.expectEnd(nil)
		if err := s.Start(t.Context()); err == nil {
			t.Error("Start after the stop: got no error")
		}
	})
}
