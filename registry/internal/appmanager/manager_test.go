// SPDX-License-Identifier: Apache-2.0

package appmanager_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Caches start first. When they have synced, all other runnables start, a Warmup delays no Start, and the manager is
// elected.
func TestManager_StartsInOrder(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, s *site) {
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
	withBoth(t, func(t *testing.T, s *site) {
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

// Start waits for a Warmup that does not return, and for it the caches. controller-runtime does not.
func TestManager_WaitsForWarmups(t *testing.T) {
	with(t, func(_ *testing.T, s *site) {
		c := s.controller("controller")
		s.add(c)
		close(s.cache.synced)
		close(s.cache.release)
		close(c.release)
		s.start()
		s.happened()
		s.cancel()
		s.expect("controller's warm-up is canceled", "controller is canceled")
		s.expectRunning()
		c.warm <- nil
		s.expect("cache is canceled")
		s.expectEnd(nil)
	})
}

// A controller has a lock while it starts its sources. The stop does not wait for the call that waits for the lock.
func TestManager_StopsACallThatHoldsALock(t *testing.T) {
	t.Parallel()
	withBoth(t, func(_ *testing.T, s *site) {
		c := s.controller("controller")
		s.add(c)
		close(s.cache.synced)
		close(s.cache.release)
		s.start()
		s.happened()
		s.cancel()
		s.happened()
		go func() { // Start has the lock, for which Warmup waits.
			<-c.release
			c.warm <- nil
		}()
		close(c.release)
		s.expect("cache is canceled")
		s.expectEnd(nil)
	})
}

// The error of any runnable ends the manager, also of one that was added late, and is the result of Start. All others are
// canceled and awaited.
func TestManager_EndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	for name, choose := range map[string]func(*site) (manager.Runnable, func()){
		"leader": func(s *site) (manager.Runnable, func()) {
			p := s.part("failing")
			return p, func() { p.fail <- errFailed }
		},
		"always": func(s *site) (manager.Runnable, func()) {
			p := s.part("failing")
			return unelected{p}, func() { p.fail <- errFailed }
		},
		"warm-up": func(s *site) (manager.Runnable, func()) {
			c := s.controller("failing")
			close(c.release)
			return c, func() { c.warm <- errFailed }
		},
		"other cache": func(s *site) (manager.Runnable, func()) {
			c := &fakeCache{part: s.part("failing"), synced: make(chan struct{})}
			close(c.synced)
			return withCache{c}, func() { c.fail <- errFailed }
		},
		"the cache": func(s *site) (manager.Runnable, func()) {
			return s.part("idle"), func() { s.cache.fail <- errFailed }
		},
	} {
		for when, late := range map[string]bool{"added before Start": false, "added after Start": true} {
			t.Run(name+"/"+when, func(t *testing.T) {
				t.Parallel()
				withBoth(t, func(t *testing.T, s *site) {
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
	withBoth(t, func(t *testing.T, s *site) {
		first, second := s.part("first"), s.part("second")
		s.add(first)
		s.add(second)
		close(s.cache.synced)
		close(s.cache.release)
		s.start()
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
	withBoth(t, func(t *testing.T, s *site) {
		p := s.part("leader")
		s.add(p)
		close(s.cache.synced)
		close(s.cache.release)
		s.start()
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
	withBoth(t, func(_ *testing.T, s *site) {
		close(s.cache.synced)
		close(s.cache.release)
		s.start()
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

// A runnable may add a runnable while the manager starts, before and after the turn of its step.
func TestManager_AddsWhileItStarts(t *testing.T) {
	with(t, func(t *testing.T, s *site) {
		s.start()
		s.expect("cache starts")
		early, late := &fakeCache{part: s.part("cache 2"), synced: make(chan struct{})}, s.part("leader")
		s.add(withCache{early})
		s.expect("cache 2 starts")
		s.add(late)
		s.expect()
		close(s.cache.synced)
		s.expect("leader starts")
		for _, one := range []*part{s.cache.part, early.part, late} {
			close(one.release)
		}
		s.cancel()
		s.expectEnd(nil)
		if !s.isElected() {
			t.Error("the manager was not elected")
		}
	})
}

// A manager that stops or has stopped takes no runnable.
func TestManager_RefusesAfterTheStop(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, s *site) {
		always := unelected{s.part("always")}
		s.add(always)
		close(s.cache.synced)
		close(s.cache.release)
		s.start()
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
	withBoth(t, func(t *testing.T, s *site) {
		close(s.cache.synced)
		close(s.cache.release)
		s.start()
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

// A manager whose caches do not sync ends with its context, with the error of the cache, and with an error of another
// runnable; it starts nothing else. controller-runtime continues to wait (controller-runtime#3440).
func TestManager_EndsWhileCachesSync(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		end  func(*site)
		want error
	}{
		"context":        {func(s *site) { s.cancel() }, nil},
		"error of cache": {func(s *site) { s.cache.fail <- errFailed }, errFailed},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, s *site) {
				s.add(s.part("leader"))
				s.add(s.controller("controller"))
				close(s.cache.release)
				s.start()
				s.expect("cache starts")
				one.end(s)
				s.happened()
				s.expectEnd(one.want)
				if s.isElected() {
					t.Error("the manager is elected")
				}
			})
		})
	}
}

// A cache that reports that it has not synced ends the manager.
func TestManager_EndsWithACacheThatCannotSync(t *testing.T) {
	with(t, func(t *testing.T, s *site) {
		s.cache.refuses = true
		close(s.cache.release)
		s.start()
		if err := <-s.result; err == nil || !strings.Contains(err.Error(), "has not synced") {
			t.Errorf("Start: got %v, want an error about the cache", err)
		}
	})
}

// With a context that has ended the cluster starts and ends, which stops the recorder of events that has been used before;
// nothing else starts. The bubble of the test fails if a goroutine of the recorder remains.
func TestManager_StopsTheRecorderOfAnEndedContext(t *testing.T) {
	with(t, func(t *testing.T, s *site) {
		s.add(s.part("leader"))
		close(s.cache.release)
		s.GetEventRecorder("test").Eventf(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, nil,
			corev1.EventTypeNormal, "Tested", "Testing", "a note")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Start(ended); err != nil {
			t.Errorf("Start: got %v, want nil", err)
		}
		s.expect("cache starts", "cache is canceled")
	})
}

// A manager that runs has a goroutine for each runnable and the goroutine of Start, and no other. All have the labels of the
// context of Start.
func TestManager_HasNoOtherGoroutines(t *testing.T) {
	t.Parallel()
	s := newSite(t, newManager)
	close(s.cache.synced)
	started := make(chan struct{}, 4)
	runnable := manager.RunnableFunc(func(ctx context.Context) error {
		started <- struct{}{}
		<-ctx.Done()
		return nil
	})
	s.add(runnable)
	s.add(runnable)
	ctx, cancel := context.WithCancel(pprof.WithLabels(t.Context(), pprof.Labels("test", t.Name())))
	defer cancel()
	result := make(chan error, 1)
	go func() {
		pprof.SetGoroutineLabels(ctx)
		result <- s.Start(ctx)
	}()
	<-s.Elected()
	s.add(runnable) // by a goroutine without labels
	for range 3 {
		<-started
	}
	const want = 5 // three runnables, the cluster and Start
	for n := -1; n != want; n = labeled(t) {
		runtime.Gosched() // The goroutine that waited for the cache may be about to end.
	}
	cancel()
	close(s.cache.release)
	if err := <-result; err != nil {
		t.Errorf("Start: got %v, want nil", err)
	}
}

// labeled returns the number of goroutines with the name of the test as a label.
func labeled(t *testing.T) int {
	t.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, strconv.Quote(t.Name())) {
			count, _, _ := strings.Cut(stack, " ")
			n, err := strconv.Atoi(count)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}
