// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A rehearsal continues until everything was reconciled, and then once more.
func TestQueues_Rounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewCountedQueues()
		q := newCountedQueue[string](all, "app")("c", workqueue.DefaultTypedControllerRateLimiter[string]())
		defer q.ShutDown()
		want := func(about string, left, working int) {
			t.Helper()
			testkit.Equal(t, all.Rounds("app"), Rounds{left, working}, about)
		}
		do := func(key string) {
			t.Helper()
			got, _ := q.Get()
			testkit.Equal(t, got, key, "the next item")
		}
		q.Add("now")
		q.AddAfter("soon", time.Second)
		q.AddAfter("a timer", time.Hour)
		want("what was added", 2, 0)
		do("now")
		want("work", 2, 1)
		q.AddAfter("now", time.Minute)
		q.Done("now")
		want("what was done waits for nothing", 1, 0)
		do("soon")
		q.Done("soon")
		want("the first round", 0, 0)
		all.Repeat("app")
		want("what was done is done again", 2, 0)
		for range 2 {
			key, _ := q.Get()
			q.Done(key)
		}
		want("the second round", 0, 0)
		q.Add("new")
		do("new")
		q.AddAfter("new", time.Minute)
		q.Done("new")
		want("what comes later is done twice", 1, 0)
		do("new")
		q.Done("new")
		want("twice", 0, 0)
		testkit.Equal(t, all.Rounds("another"), Rounds{}, "another app")
	})
}
