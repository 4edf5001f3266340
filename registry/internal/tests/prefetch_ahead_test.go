// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/prefetch"
)

// server responds to each request with its number, and counts what it gets.
type counter struct {
	mu             sync.Mutex
	asked, queries []string
	status         int
	ended          map[string]bool
	hang           chan struct{} // closed when it responds again
}

func (s *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked, s.queries = append(s.asked, r.Method+" "+r.URL.Path), append(s.queries, r.URL.RawQuery)
	text, hang, status := fmt.Sprint(len(s.asked)), s.hang, s.status
	s.mu.Unlock()
	context.AfterFunc(r.Context(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended[text] = true
	})
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}}, nil
}

func (s *counter) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *counter) hasEnded(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[text]
}

func newCounter() *counter { return &counter{status: http.StatusOK, ended: map[string]bool{}} }

const (
	pods  = "https://example.com/api/v1/pods?resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true&timeoutSeconds=%d"
	nodes = "https://example.com/prefix/api/v1/nodes?limit=500&resourceVersion=0"
	here  = "the endpoint"
)

// get sends a request as an app does, and returns the text of the response.
func get(ctx context.Context, t *testing.T, by http.RoundTripper, target string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json")
	response, err := by.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// recordedLists returns the lists of an app that lists Pods and Nodes first.
func recordedLists(t *testing.T) *prefetch.Lists {
	t.Helper()
	l, s := prefetch.NewLists(here), newCounter()
	by := l.Record(s)
	for _, one := range []string{
		fmt.Sprintf(pods, 300), nodes, nodes,
		"https://example.com/api/v1/pods?watch=true&resourceVersion=7",                               // continues after a list
		"https://example.com/prefix/api/v1/nodes?limit=500&resourceVersion=0&continue=x",             // the second page
		"https://example.com/api/v1/secrets", "https://example.com/api/v1/secrets?resourceVersion=5", // live
		"https://example.com/api/v1/namespaces/kube-system", "https://example.com/version",
	} {
		get(t.Context(), t, by, one)
	}
	l.End()
	get(t.Context(), t, by, "https://example.com/api/v1/configmaps?resourceVersion=0")
	return l // of Pods and Nodes
}

func request(s *counter) prefetch.Request {
	return prefetch.Request{Transport: s, Server: "https://example.com/prefix", UserAgent: "ahead"}
}

// The app gets the responses that were sent ahead, each once, whatever the timeout of its watch is, and everything else from the
// server. The response ends with its body.
func TestAhead_Use(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testUse)
}

func testUse(t *testing.T) {
	s, pool := newCounter(), prefetch.NewPool(1)
	a := pool.New(recordedLists(t), here)
	a.Send(t.Context(), request(s))
	if s.requests() != 2 {
		t.Fatalf("got the requests %q, want two lists", s.asked)
	}
	by := a.Use(s)
	first := get(t.Context(), t, by, fmt.Sprintf(pods, 555))
	synctest.Wait()
	if !s.hasEnded(first) {
		t.Error("the request has not ended with the body of its response")
	}
	second := get(t.Context(), t, by, nodes)
	if first == second || s.requests() != 2 {
		t.Errorf("got %s and %s after %d requests, want the two responses", first, second, s.requests())
	}
	if got := get(t.Context(), t, by, nodes); got != "3" {
		t.Errorf("the second list of Nodes is response %s, want a new one", got)
	}
	if len(pool) != 0 {
		t.Error("the place in the pool is not free")
	}
}

// Each of these is followed by a request of the app that gets a response of its own, and the place in the pool is free.
func TestAhead_NotUsed(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, a *prefetch.Ahead, s *counter){
		"the app writes": func(t *testing.T, a *prefetch.Ahead, s *counter) {
			t.Helper()
			a.Send(t.Context(), request(s))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "https://example.com/api/v1/namespaces/x/pods/y", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.DropBefore(s).RoundTrip(r); err != nil {
				t.Fatal(err)
			}
		},
		"the app reads": func(t *testing.T, a *prefetch.Ahead, s *counter) {
			t.Helper()
			a.Send(t.Context(), request(s))
			get(t.Context(), t, a.DropBefore(s), "https://example.com/api/v1/namespaces/x/pods/y")
		},
		"the app reads with a client of its caches": func(t *testing.T, a *prefetch.Ahead, s *counter) {
			t.Helper()
			a.Send(t.Context(), request(s))
			get(t.Context(), t, a.Use(s), "https://example.com/api/v1/pods")
		},
		"the server refuses": func(t *testing.T, a *prefetch.Ahead, s *counter) {
			t.Helper()
			s.status = http.StatusForbidden
			a.Send(t.Context(), request(s))
			s.status = http.StatusOK
		},
		"the contact fails": func(t *testing.T, a *prefetch.Ahead, s *counter) {
			t.Helper()
			s.hang = make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				a.Send(ctx, request(s))
			}()
			synctest.Wait()
			cancel()
			<-sent
			s.hang = nil
		},
		"the app does not start in time": func(t *testing.T, a *prefetch.Ahead, s *counter) {
			t.Helper()
			a.Send(t.Context(), request(s))
			<-time.After(10 * time.Second)
		},
		"the remote is another cluster": func(t *testing.T, a *prefetch.Ahead, s *counter) {
			t.Helper()
			a.Send(t.Context(), request(s))
			a.Drop()
		},
		"that is known before they are sent": func(t *testing.T, a *prefetch.Ahead, s *counter) {
			t.Helper()
			a.Drop()
			a.Send(t.Context(), request(s))
		},
		"they are dropped twice": func(t *testing.T, a *prefetch.Ahead, s *counter) {
			t.Helper()
			a.Send(t.Context(), request(s))
			a.Drop()
			a.Drop()
		},
		"the contact has failed before": func(t *testing.T, a *prefetch.Ahead, s *counter) {
			t.Helper()
			a.Send(ended(t.Context()), request(s))
		},
		"nothing was sent": func(*testing.T, *prefetch.Ahead, *counter) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, pool := newCounter(), prefetch.NewPool(1)
				a := pool.New(recordedLists(t), here)
				spoil(t, a, s)
				synctest.Wait()
				before := s.requests()
				for i, target := range []string{nodes, fmt.Sprintf(pods, 300)} {
					if got, want := get(t.Context(), t, a.Use(s), target), fmt.Sprint(before+i+1); got != want {
						t.Errorf("the app gets response %s, want %s", got, want)
					}
				}
				a.Drop()
				if len(pool) != 0 {
					t.Error("the place in the pool is not free")
				}
			})
		})
	}
}

func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// A remote that does not respond keeps the app's own request until that ends; the response ends with the context of the request.
func TestAhead_EndsWithTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := newCounter(), prefetch.NewPool(1).New(recordedLists(t), here)
		s.hang = make(chan struct{})
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			a.Send(t.Context(), request(s))
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, nodes, nil)
			r.Header.Set("Accept", "application/json")
			response, err := a.Use(s).RoundTrip(r)
			if err == nil {
				_ = response.Body.Close()
			}
			failed <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-failed; err == nil {
			t.Error("the request succeeds after its end")
		}
		a.Drop()
		<-sent
	})
}

// A watch, discovery and another list of a cache drop nothing.
func TestAhead_OtherRequestsOfCaches(t *testing.T) {
	t.Parallel()
	s, a := newCounter(), prefetch.NewPool(1).New(recordedLists(t), here)
	a.Send(t.Context(), request(s))
	for _, target := range []string{
		"https://example.com/api", "https://example.com/apis/apps/v1", "https://example.com/api/v1/configmaps?resourceVersion=0",
		"https://example.com/api/v1/configmaps?watch=true&resourceVersion=5",
	} {
		get(t.Context(), t, a.Use(s), target)
	}
	if before := s.requests(); get(t.Context(), t, a.Use(s), nodes) == fmt.Sprint(before+1) {
		t.Error("the response was dropped")
	}
}

// A request with a header that could change the response gets a response of its own.
func TestAhead_OtherHeaders(t *testing.T) {
	t.Parallel()
	s, a := newCounter(), prefetch.NewPool(1).New(recordedLists(t), here)
	a.Send(t.Context(), request(s))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Impersonate-User", "another user")
	response, err := a.Use(s).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "3" {
		t.Errorf("got response %q, error %v, want a new one", text, err)
	}
}

// A list is sent with the timeout that it was recorded with, so that the server does not choose a longer one.
func TestAhead_Timeout(t *testing.T) {
	t.Parallel()
	s, a := newCounter(), prefetch.NewPool(1).New(recordedLists(t), here)
	a.Send(t.Context(), request(s))
	if !slices.ContainsFunc(s.queries, func(q string) bool { return strings.Contains(q, "timeoutSeconds=300") }) {
		t.Errorf("got the queries %q, want one with a timeout of 300 s", s.queries)
	}
}

// No more remotes than the pool has places have lists that were sent ahead. A place is free again when they are taken.
func TestPool(t *testing.T) {
	t.Parallel()
	s, pool := newCounter(), prefetch.NewPool(1)
	first, second := pool.New(recordedLists(t), here), pool.New(recordedLists(t), here)
	first.Send(t.Context(), request(s))
	second.Send(t.Context(), request(s))
	if s.requests() != 2 {
		t.Errorf("got %d requests, want the two of one remote", s.requests())
	}
	for _, target := range []string{nodes, fmt.Sprintf(pods, 300)} {
		get(t.Context(), t, first.Use(s), target)
	}
	third := pool.New(recordedLists(t), here)
	third.Send(t.Context(), request(s))
	if s.requests() != 4 {
		t.Errorf("got %d requests, want four", s.requests())
	}
}

// Without lists for this endpoint nothing is sent, and an app sends its requests itself.
func TestPool_NoLists(t *testing.T) {
	t.Parallel()
	s := newCounter()
	for endpoint, lists := range map[string]*prefetch.Lists{"of none": nil, here: prefetch.NewLists(here), "another": recordedLists(t)} {
		a := prefetch.NewPool(1).New(lists, endpoint)
		a.Send(t.Context(), request(s))
		if a.Use(s) != http.RoundTripper(s) || a.DropBefore(s) != http.RoundTripper(s) || s.requests() != 0 {
			t.Error("an Ahead without lists is not idle")
		}
		a.Drop()
	}
}

// No more than four lists are recorded.
func TestLists_Most(t *testing.T) {
	t.Parallel()
	l, s := prefetch.NewLists(here), newCounter()
	for i := range 10 {
		get(t.Context(), t, l.Record(newCounter()), fmt.Sprintf("https://example.com/apis/example.com/v1/kind%d?resourceVersion=0", i))
	}
	l.End()
	a := prefetch.NewPool(1).New(l, here)
	a.Send(t.Context(), request(s))
	if got := s.requests(); got != 4 {
		t.Errorf("got %d lists, want 4", got)
	}
	a.Drop()
}
