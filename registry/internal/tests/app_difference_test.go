// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"context"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// This file has the tests of what the manager of controller-runtime does not do.

// A manager whose caches do not sync ends with its context, with the error of the cache, and with an error of another
// runnable; it starts nothing else. controller-runtime continues to wait (controller-runtime#3440).
func TestManager_EndsWhileCachesSync(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		end  func(*recorded)
		want error
	}{
		"context":        {func(s *recorded) { s.cancel() }, nil},
		"error of cache": {func(s *recorded) { s.cache.fail <- errFailed }, errFailed},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, s *recorded) {
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
	with(t, func(t *testing.T, s *recorded) {
		s.cache.refuses = true
		close(s.cache.release)
		s.start()
		testkit.ErrorHas(t, <-s.result, "has not synced", "Start")
	})
}

// With a context that has ended the cluster starts and ends, which stops the recorder of events that has been used before;
// nothing else starts. The bubble of the test fails if a goroutine of the recorder remains.
func TestManager_StopsTheRecorderOfAnEndedContext(t *testing.T) {
	with(t, func(t *testing.T, s *recorded) {
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
	s := newRecorded(t, newManager)
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
	must(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
	sum := 0
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, strconv.Quote(t.Name())) {
			count, _, _ := strings.Cut(stack, " ")
			n, err := strconv.Atoi(count)
			must(t, err)
			sum += n
		}
	}
	return sum
}

// Start waits for a Warmup that does not return, and for it the caches. controller-runtime does not.
func TestManager_WaitsForWarmups(t *testing.T) {
	with(t, func(_ *testing.T, s *recorded) {
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

// A runnable may add a runnable while the manager starts, before and after the turn of its step.
func TestManager_AddsWhileItStarts(t *testing.T) {
	with(t, func(t *testing.T, s *recorded) {
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
