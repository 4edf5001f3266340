// SPDX-License-Identifier: Apache-2.0

package enroll_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// cut ends a command at a request to either cluster: before the request is sent, or after it was handled and before the
// response arrives. With at 0 it only counts.
type cut struct {
	at   int // the number of the request; 0 to end at no request
	lost bool
	end  context.CancelFunc

	mu    sync.Mutex // protects count
	count int
}

func (c *cut) wrap(next http.RoundTripper) http.RoundTripper {
	return testkit.RoundTrip(func(request *http.Request) (*http.Response, error) {
		c.mu.Lock()
		c.count++
		hit := c.count == c.at
		c.mu.Unlock()
		if !hit {
			return next.RoundTrip(request)
		}
		defer c.end()
		if c.lost {
			response, err := next.RoundTrip(request)
			if err == nil {
				err = response.Body.Close()
			}
			return nil, errors.Join(err, context.Canceled)
		}
		return nil, context.Canceled
	})
}

func eachItem(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(o runtime.Object) error {
		object, ok := o.(client.Object)
		if !ok {
			return errUnexpected
		}
		do(object)
		return nil
	})
}

// stride is the distance between the requests at which commands are ended: with -short they are not ended at each request.
func stride() int {
	if testing.Short() {
		return 24
	}
	return 1
}

// interruptEverywhere ends a command at one request after the other, and runs the same command again each time, which
// must finish. before prepares each round, and after checks the result.
func interruptEverywhere(t *testing.T, make func(*testing.T, *cut) command, before, after func(*testing.T)) {
	t.Helper()
	for _, lost := range []bool{false, true} {
		first := 1
		if lost && stride() > 1 {
			first = 12 // other requests than before
		}
		for at, ended := first, true; ended; at += stride() {
			name := fmt.Sprintf("request %d, lost=%t", at, lost)
			before(t)
			ctx, cancel := context.WithCancel(t.Context())
			c := &cut{at: at, lost: lost, end: cancel}
			err := run(ctx, make(t, c))
			ended = c.count >= at
			if ended && !errors.Is(err, context.Canceled) || !ended && err != nil {
				t.Fatalf("%s, of %d requests: the command ends with %v", name, c.count, err)
			}
			cancel()
			if err := run(t.Context(), make(t, &cut{})); err != nil && !alreadyGone(err) {
				t.Fatalf("%s: the same command does not finish: %v", name, err)
			}
			after(t)
			if t.Failed() {
				t.Fatalf("after %s", name)
			}
		}
	}
}

func alreadyGone(err error) bool {
	return strings.Contains(err.Error(), "there is no Cluster edge in hub, and nothing that register has made for it")
}

// After register, rotate or deregister is interrupted at a request, the same command finishes when it is run again, and
// no object is left over or missing in comparison with a run without an interruption.
func TestCommands_InterruptedAtEachRequest(t *testing.T) {
	t.Parallel()
	s := newClusters(t, loopback())
	nothing := func(*testing.T) {}
	var empty []string
	settled := func(t *testing.T) {
		t.Helper()
		must(t, run(t.Context(), s.register(t, &cut{})))
	}
	oneToken := func(t *testing.T) {
		t.Helper()
		var cluster hubv1.Cluster
		must(t, s.admin["hub"].Get(t.Context(), client.ObjectKey{Name: "edge"}, &cluster))
		if tokens := s.tokens(t); len(tokens) != 1 || !meta.IsStatusConditionTrue(cluster.Status.Conditions, hubv1.ConditionReady) {
			t.Errorf("tokens %v; the Cluster is %+v", tokens, cluster.Status.Conditions)
		}
	}
	asBefore := func(t *testing.T) {
		t.Helper()
		testkit.Equal(t, s.contents(t), empty, "objects are left over, or missing")
	}
	must(t, run(t.Context(), s.register(t, &cut{}))) // and the objects that the hub creates once
	must(t, run(t.Context(), s.deregister(t, &cut{})))
	empty = s.contents(t)

	t.Run("register", func(t *testing.T) {
		interruptEverywhere(t, s.register, nothing, func(t *testing.T) {
			t.Helper()
			oneToken(t)
			must(t, run(t.Context(), s.deregister(t, &cut{})))
			asBefore(t)
		})
	})
	t.Run("rotate", func(t *testing.T) {
		settled(t)
		interruptEverywhere(t, s.rotate, nothing, oneToken)
		must(t, run(t.Context(), s.deregister(t, &cut{})))
		asBefore(t)
	})
	t.Run("deregister", func(t *testing.T) {
		interruptEverywhere(t, s.deregister, settled, asBefore)
	})
}
