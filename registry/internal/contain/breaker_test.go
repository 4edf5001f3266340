// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"fmt"
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	const good = "" // a call that does not panic
	repeat := func(n int, of ...string) (calls []string) {
		for i := range n {
			calls = append(calls, of[i%len(of)])
		}
		return calls
	}
	for name, c := range map[string]struct {
		calls []string
		every time.Duration
		opens bool
	}{
		"ten panics of one request and nothing else": {repeat(10, "a"), time.Second, true},
		"nine panics": {repeat(9, "a", "b", "c"), time.Second, false},
		"ten panics that take longer than a minute":     {repeat(10, "a", "b", "c"), 10 * time.Second, false},
		"one bad request among good ones":               {append(repeat(5, good), repeat(30, "a")...), time.Second, false},
		"two bad requests among good ones":              {append(repeat(5, good), repeat(30, "a", "b")...), time.Second, false},
		"a controller that has worked and now does not": {append(repeat(5, good), repeat(10, "a", "b", "c")...), time.Second, true},
		"every other call panics":                       {repeat(100, "a", good, "b", good, "c", good), time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b breaker
			opens, now := false, time.Now()
			for _, request := range c.calls {
				now = now.Add(c.every)
				if request == good {
					b.worked()
				} else if b.panicked(request, now) {
					opens = true
				}
			}
			if opens != c.opens {
				t.Errorf("got opens %t", opens)
			}
			if len(b.times) > breakerPanics || len(b.requests) > breakerRequests {
				t.Errorf("breaker remembers %d panics of %d requests", len(b.times), len(b.requests))
			}
		})
	}
	var b breaker
	for i := range 1000 {
		b.panicked(fmt.Sprint(i), time.Now())
	}
	if cap(b.times) > 4*breakerPanics {
		t.Errorf("breaker has room for %d panics", cap(b.times))
	}
}
