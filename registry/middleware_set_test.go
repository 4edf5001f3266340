// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// naming returns a middleware that adds its name to a header of the request.
func naming(name string, order int) Middleware {
	return Middleware{Name: name, Order: order, Transport: func(_ state.ClusterName, next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
			r.Header.Add("Names", name)
			return next.RoundTrip(r)
		})
	}}
}

// send sends a request through the middleware of a set, and returns the names of the middleware that handled it.
func send(t *testing.T, by http.RoundTripper) ([]string, error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api", http.NoBody)
	response, err := by.RoundTrip(r)
	if err == nil {
		response.Body.Close()
	}
	return r.Header["Names"], err
}

func ok(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func set(t *testing.T, all ...Middleware) *middlewareSet {
	t.Helper()
	s, err := newMiddlewareSet(all)
	testkit.Must(t, err)
	return s
}

// The order of middleware is independent of the order of its addition. A set adds all middleware of a hub part, or no
// middleware at all.
func TestMiddlewareSet_Add(t *testing.T) {
	t.Parallel()
	s := set(t, naming("b", 0), naming("z", -1))
	if err := s.Add([]Middleware{naming("a", 0), naming("c", 0)}); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]Middleware{{naming("d", 0), naming("a", 0)}, {naming("d", 0), {}}} {
		if err := s.Add(bad); err == nil {
			t.Errorf("Add succeeds with %v", bad)
		}
	}
	names, err := send(t, s.Wrap("edge", func() *state.Desired { return nil }, testkit.RoundTrip(ok)))
	if diff := cmp.Diff([]string{"z", "a", "b", "c"}, names); diff != "" || err != nil {
		t.Errorf("got error %v, names (-want +got): %s", err, diff)
	}
	if by := set(t, Middleware{Name: "limits"}).Wrap("edge", nil, testkit.RoundTrip(ok)); by != nil {
		t.Errorf("got %v without a middleware that wraps the transport, want nil", by)
	}
}

// A middleware wraps the transport of the remotes that it selects, and may do so if its selection fails.
func TestMiddlewareSet_Wraps(t *testing.T) {
	t.Parallel()
	named := naming("a", 0)
	for name, c := range map[string]struct {
		with Middleware
		want bool
	}{
		"without a transport": {Middleware{Name: "a"}, false},
		"of all remotes":      {named, true},
		"of this remote":      {Middleware{Name: "a", Transport: named.Transport, Select: isEdge}, true},
		"of another remote": {Middleware{Name: "a", Transport: named.Transport, Select: func(s state.Status) bool {
			return !isEdge(s)
		}}, false},
		"whose selection panics": {Middleware{Name: "a", Transport: named.Transport, Select: func(state.Status) bool {
			panic("broken")
		}}, true},
	} {
		testkit.Equal(t, set(t, c.with).Wraps("edge", &state.Desired{}), c.want, "a middleware", name)
	}
}

func isEdge(s state.Status) bool { return s.Name == "edge" }

// A set calls Select once for each desired state, and Transport once.
func TestMiddlewareSet_Wrap_Selects(t *testing.T) {
	t.Parallel()
	asked, made := 0, 0
	named := naming("a", 0)
	s := set(t, Middleware{
		Name:   "a",
		Select: func(s state.Status) bool { asked++; return s.Name == "edge" && s.Labels["on"] != "" },
		Transport: func(name state.ClusterName, next http.RoundTripper) http.RoundTripper {
			made++
			return named.Transport(name, next)
		},
	})
	desired := &state.Desired{}
	by := s.Wrap("edge", func() *state.Desired { return desired }, testkit.RoundTrip(ok))
	for i, on := range []string{"", "yes", "", "yes"} {
		desired = &state.Desired{Labels: map[string]string{"on": on}}
		for range 3 {
			if names, err := send(t, by); err != nil || len(names) > 0 != (on != "") {
				t.Errorf("labels %v: got names %v, error %v", desired.Labels, names, err)
			}
		}
		if asked != i+1 {
			t.Errorf("got %d calls of Select for %d desired states", asked, i+1)
		}
	}
	testkit.Equal(t, made, 1, "calls of Transport")
}

type body struct {
	io.Reader
	closed int
}

func (b *body) Close() error { b.closed++; return nil }

// A middleware that breaks the contract of a RoundTripper fails the request with a NotHealthyError that names the
// middleware. Other errors of a middleware pass unchanged.
func TestMiddlewareSet_Wrap_Broken(t *testing.T) {
	t.Parallel()
	own := errors.New("refused by the middleware")
	left := &body{Reader: strings.NewReader("left")}
	returns := func(response *http.Response, err error) func(state.ClusterName, http.RoundTripper) http.RoundTripper {
		return func(state.ClusterName, http.RoundTripper) http.RoundTripper {
			return testkit.RoundTrip(func(*http.Request) (*http.Response, error) { return response, err })
		}
	}
	for name, c := range map[string]struct {
		middleware Middleware
		broken     bool
	}{
		"no response":       {Middleware{Transport: returns(nil, nil)}, true},
		"no transport":      {Middleware{Transport: func(state.ClusterName, http.RoundTripper) http.RoundTripper { return nil }}, true},
		"panic in Select":   {Middleware{Transport: returns(nil, own), Select: func(state.Status) bool { panic("on purpose") }}, true},
		"an error":          {Middleware{Transport: returns(nil, own)}, false},
		"an error and more": {Middleware{Transport: returns(&http.Response{Body: left}, own)}, false},
	} {
		c.middleware.Name = "bad"
		_, err := send(t, set(t, c.middleware).Wrap("edge", func() *state.Desired { return &state.Desired{} }, testkit.RoundTrip(ok)))
		var unhealthy kubeconfig.NotHealthyError
		if err == nil || errors.As(err, &unhealthy) != c.broken || strings.Contains(err.Error(), `middleware "bad" of the hub is broken`) != c.broken {
			t.Errorf("%s: got error %v", name, err)
		}
		if !c.broken && !errors.Is(err, own) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	bare := Middleware{Name: "bare", Transport: returns(&http.Response{StatusCode: http.StatusTeapot}, nil)}
	if _, err := send(t, set(t, bare).Wrap("edge", func() *state.Desired { return &state.Desired{} }, testkit.RoundTrip(ok))); err != nil {
		t.Errorf("response without a body: got error %v", err) // closed by send
	}
	if left.closed != 1 {
		t.Errorf("body of a response with an error was closed %d times, want 1", left.closed)
	}
}

// Middleware changes limits in its order. A middleware that panics has no effect and is reported.
func TestMiddlewareSet_Limits(t *testing.T) {
	t.Parallel()
	s := set(
		t,
		Middleware{Name: "a", Client: func(l state.ClientLimits) state.ClientLimits { l.QPS, l.Burst = 1, 2; return l }},
		Middleware{Name: "b", Client: func(state.ClientLimits) state.ClientLimits { panic("on purpose") }},
		Middleware{Name: "c", Client: func(l state.ClientLimits) state.ClientLimits { l.QPS *= 7; l.Burst = 0; return l }},
		Middleware{
			Name: "d", Select: func(state.Status) bool { return false },
			Client: func(l state.ClientLimits) state.ClientLimits { l.QPS = 0; return l },
		},
	)
	desired := state.Desired{}.WithDefaults()
	limits, err := s.Limits("edge", &desired)
	if limits.QPS != 7 || limits.Burst != desired.Client.Burst || limits.Timeout != desired.Client.Timeout {
		t.Errorf("got limits %+v", limits)
	}
	testkit.ErrorHas(t, err, `middleware "b"`)
}
