// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// inMemory is an API server without a network, which may be used in a bubble of synctest.
type inMemory struct {
	http.Handler
	requests atomic.Int64
	fail     error                     // if it is set, requests fail
	wait     func(ctx context.Context) // before each response; nil for none
}

func (s *inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests.Add(1)
	if s.wait != nil {
		s.wait(r.Context())
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if s.fail != nil {
		return nil, s.fail
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

func (s *inMemory) server(early *Early) Remote {
	return Remote{Host: "https://example.com", Client: &http.Client{Transport: s}, Early: early}
}

// requestEarly requests documents of a server early, with ctx.
func requestEarly(ctx context.Context, m *Mappings, s *inMemory) *Early {
	e := m.NewEarly("https://example.com", &http.Client{Transport: s})
	e.Request(ctx)
	return e
}

func mapsKind(t *testing.T, m meta.RESTMapper, kind string) bool {
	t.Helper()
	_, err := m.RESTMapping(schema.GroupKind{Group: "example.com", Kind: kind}, "v1")
	if err != nil && !meta.IsNoMatchError(err) {
		t.Errorf("RESTMapping: %v", err)
	}
	return err == nil
}

// A mapper uses early documents, also those that came without a body, and requests nothing again.
func TestEarly(t *testing.T) {
	t.Parallel()
	var m Mappings
	a, b := &inMemory{Handler: &tagged{kind: "A"}}, &inMemory{Handler: &tagged{kind: "B"}}
	first := requestEarly(t.Context(), &m, a)
	ofA, err := m.NewMapper(t.Context(), t.Context(), a.server(first))
	must(t, err)
	unchanged := requestEarly(t.Context(), &m, a)
	if _, err := m.NewMapper(t.Context(), t.Context(), b.server(nil)); err != nil { // is the latest mapping now
		t.Fatal(err)
	}
	again, err := m.NewMapper(t.Context(), t.Context(), a.server(unchanged))
	must(t, err)
	if !mapsKind(t, ofA, "A") || !mapsKind(t, again, "A") {
		t.Error("the early documents are not used")
	}
	if n := a.requests.Load(); n != 4 {
		t.Errorf("got %d requests, want 4: two documents, twice", n)
	}
}

// Early documents that are old, too large, were canceled or have failed are requested again.
func TestEarly_RequestedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]func(context.Context, *Mappings, *inMemory) *Early{
		"old": func(ctx context.Context, m *Mappings, s *inMemory) *Early {
			e := requestEarly(ctx, m, s)
			<-time.After(maxEarlyAge)
			return e
		},
		"too large": func(ctx context.Context, m *Mappings, _ *inMemory) *Early {
			return requestEarly(ctx, m, &inMemory{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", aggregated)
				_, _ = w.Write([]byte(`{"items":[` + strings.Repeat(" ", maxEarly) + `]}`))
			})})
		},
		"canceled": func(ctx context.Context, m *Mappings, s *inMemory) *Early {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return requestEarly(ctx, m, s)
		},
		"failed": func(ctx context.Context, m *Mappings, s *inMemory) *Early {
			return requestEarly(ctx, m, &inMemory{Handler: s, fail: errors.New("broken")})
		},
		"panicked": func(ctx context.Context, m *Mappings, s *inMemory) *Early {
			return requestEarly(ctx, m, &inMemory{Handler: s, wait: func(context.Context) { panic("broken") }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var m Mappings
				s := &inMemory{Handler: &tagged{kind: "A"}}
				early := c(t.Context(), &m, s)
				before := s.requests.Load()
				found, err := m.NewMapper(t.Context(), t.Context(), s.server(early))
				if err != nil || !mapsKind(t, found, "A") || s.requests.Load() != before+2 {
					t.Errorf("got error %v and %d requests, want 2", err, s.requests.Load()-before)
				}
			})
		})
	}
}

// A mapper waits for early documents as long as its context permits.
func TestEarly_Awaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m Mappings
		s := &inMemory{Handler: &tagged{kind: "A"}, wait: func(ctx context.Context) { <-ctx.Done() }}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		e, began := m.NewEarly("https://example.com", &http.Client{Transport: s}), time.Now()
		go e.Request(t.Context())
		if _, err := m.NewMapper(short, t.Context(), s.server(e)); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("got error %v after %s, want the end of the context after a second", err, time.Since(began))
		}
	})
}
