// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]requestKind{
		"/api/v1/pods":                                       kindList,
		"/api/v1/namespaces":                                 kindList,
		"/api/v1/namespaces/x":                               kindUnary,
		"/api/v1/namespaces/x/pods":                          kindList,
		"/api/v1/namespaces/x/pods/y":                        kindUnary,
		"/api/v1/namespaces/x/pods/y/log":                    kindUnary,
		"/api/v1/namespaces/x/pods/y/log?follow=true":        kindStream,
		"/api/v1/pods?watch=true":                            kindStream,
		"/api/v1/pods?watch=1":                               kindStream,
		"/apis/apps/v1/deployments":                          kindList,
		"/apis/apps/v1/namespaces/x/deployments/y/scale":     kindUnary,
		"/apis/apps/v1":                                      kindUnary,
		"/apis":                                              kindUnary,
		"/api":                                               kindUnary,
		"/version":                                           kindUnary,
		"/k8s/clusters/c-1/apis/apps/v1/deployments":         kindList,
		"/k8s/clusters/c-1/api/v1/namespaces/kube-system":    kindUnary,
		"/apis/apps/v1/namespaces/x/deployments?limit=500":   kindList,
		"/api/v1/namespaces/x/configmaps?watch=false":        kindList,
		"/apis/example.com/v1/namespaces/x/widgets/y/status": kindUnary,
	} {
		if got := kindOf(httptest.NewRequest(http.MethodGet, path, nil)); got != want {
			t.Errorf("kindOf(%s) = %d, want %d", path, got, want)
		}
	}
}

var errFence = errors.New("the fence is closed")

type roundTrip = testkit.RoundTrip

func answer(code int, header http.Header, body string) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		if header == nil {
			header = http.Header{}
		}
		return &http.Response{
			StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}, nil
	}
}

func send(t *testing.T, c *Chain, method, path string) (*http.Response, error) {
	t.Helper()
	if c.Fence == nil {
		c.Fence = t.Context()
	}
	if c.Timeout == 0 {
		c.Timeout = time.Second
	}
	if c.Meter == nil {
		c.Meter = meter.NewLimiter(meter.NewSchemas(nil), 256<<20)
	}
	r := testkit.Request(t, method, "https://remote"+path)
	response, err := c.RoundTrip(r)
	if err == nil {
		t.Cleanup(func() { response.Body.Close() })
	}
	return response, err
}

func TestChain_Refusals(t *testing.T) {
	t.Parallel()
	closed, closeFence := context.WithCancelCause(t.Context())
	closeFence(errFence)
	for name, c := range map[string]struct {
		chain  Chain
		method string
		want   error
	}{
		"a closed fence refuses reads":  {Chain{Base: answer(200, nil, ""), Fence: closed}, http.MethodGet, errFence},
		"a closed fence refuses writes": {Chain{Base: answer(200, nil, ""), Fence: closed}, http.MethodPost, errFence},
		"a redirect is an error":        {Chain{Base: answer(307, http.Header{"Location": {"https://elsewhere"}}, "")}, http.MethodGet, errRedirect},
		"not modified is no redirect":   {Chain{Base: answer(304, nil, "")}, http.MethodGet, nil},
		"an announced giant is refused": {Chain{Base: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, ContentLength: 1 << 40}, nil
		})}, http.MethodGet, meter.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.ErrorIs(t, testkit.Err(send(t, &c.chain, c.method, "/api/v1/namespaces/x")), c.want)
		})
	}
}

// A closed gate refuses all requests that may change an object, and passes all other requests.
func TestChain_ClosedGate(t *testing.T) {
	t.Parallel()
	deposed := errors.New("not the leader")
	for method, want := range map[string]error{
		http.MethodGet: nil, http.MethodHead: nil, http.MethodOptions: nil,
		http.MethodPost: deposed, http.MethodPut: deposed, http.MethodPatch: deposed, http.MethodDelete: deposed,
		"UNHEARD-OF": deposed,
	} {
		sent := 0
		c := &Chain{Gate: func() (int64, error) { return 0, deposed }, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
			sent++
			return answer(200, nil, "")(r)
		})}
		_, err := send(t, c, method, "/api/v1/namespaces/x")
		if !errors.Is(err, want) || (sent > 0) != (want == nil) {
			t.Errorf("%s: got error %v, sent %d times; want %v", method, err, sent, want)
		}
	}
}

func TestChain_Amendments(t *testing.T) {
	t.Parallel()
	var sent *http.Request
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = r
		return answer(429, http.Header{"Retry-After": {"3600"}}, "")(r)
	})
	response, err := send(t, &Chain{Base: base, UserAgent: "clusterfx/hub/one/1"}, http.MethodGet, "/api/v1/nodes/x")
	if err != nil {
		t.Fatalf("RoundTrip: got error %v", err)
	}
	testkit.Equal(t, response.Header.Get("Retry-After"), "10", "Retry-After")
	if got := sent.Header.Get("User-Agent"); got != "clusterfx/hub/one/1" {
		t.Errorf("got User-Agent %q", got)
	}
}

func TestChain_CapsTheBody(t *testing.T) {
	t.Parallel()
	endless := roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(zeros{}), ContentLength: -1}, nil
	})
	response, err := send(t, &Chain{Base: endless, Timeout: time.Minute}, http.MethodGet, "/api/v1/nodes/x")
	if err != nil {
		t.Fatalf("RoundTrip: got error %v", err)
	}
	const bound = 64 << 20 // as docs/security.md says
	n, err := io.Copy(io.Discard, response.Body)
	if n != bound || !errors.Is(err, meter.ErrTooLarge) {
		t.Errorf("read %d bytes with error %v; want %d and ErrTooLarge", n, err, bound)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// silent does not respond until the request ends.
func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestChain_Deadlines(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]time.Duration{
		"/api/v1/nodes/x": 3 * time.Second,
		"/api/v1/nodes":   listTimeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, err := send(t, &Chain{Base: roundTrip(silent), Timeout: 3 * time.Second}, http.MethodGet, path)
			if took := time.Since(began); took != want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v after %s, want the deadline after %s", path, err, took, want)
			}
		})
	}
}

func TestChain_FenceEndsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api/v1/nodes/x", "/api/v1/nodes", "/api/v1/nodes?watch=true"} {
		synctest.Test(t, func(t *testing.T) {
			fence, cut := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cut(errFence) })
			began := time.Now()
			_, err := send(t, &Chain{Base: roundTrip(silent), Fence: fence, Timeout: time.Hour}, http.MethodGet, path)
			if took := time.Since(began); took != time.Second || !errors.Is(err, errFence) {
				t.Errorf("%s: got %v after %s, want errFence after 1s", path, err, took)
			}
		})
	}
}

// A request that waits for the rate limit is not sent once the fence is closed.
func TestChain_NothingQueuesBehindTheFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fence, cut := context.WithCancelCause(t.Context())
		sent := 0
		c := &Chain{
			Base: roundTrip(func(r *http.Request) (*http.Response, error) {
				sent++
				return answer(200, nil, "")(r)
			}),
			Fence: fence, Timeout: time.Hour, RateLimiter: rate.NewLimiter(rate.Every(time.Minute), 1),
		}
		if _, err := send(t, c, http.MethodGet, "/api/v1/nodes/x"); err != nil {
			t.Fatalf("first request: got error %v", err)
		}
		time.AfterFunc(time.Second, func() { cut(errFence) })
		if _, err := send(t, c, http.MethodGet, "/api/v1/nodes/x"); !errors.Is(err, errFence) || sent != 1 {
			t.Errorf("second request: got error %v, %d sent; want errFence and 1", err, sent)
		}
	})
}

// A request whose outcome suggests that no other one would succeed raises a doubt about the remote, and no other request does.
func TestChain_Doubt(t *testing.T) {
	t.Parallel()
	fails := func(err error) roundTrip { return func(*http.Request) (*http.Response, error) { return nil, err } }
	for name, c := range map[string]struct {
		base roundTrip
		want int
	}{
		"success":               {base: answer(200, nil, "")},
		"not found":             {base: answer(404, nil, "")},
		"conflict":              {base: answer(409, nil, "")},
		"too many requests":     {base: answer(429, nil, "")},
		"an error of a handler": {base: answer(500, nil, "")},
		"unauthorized":          {base: answer(401, nil, ""), want: 1},
		"bad gateway":           {base: answer(502, nil, ""), want: 1},
		"unavailable":           {base: answer(503, nil, ""), want: 1},
		"gateway timeout":       {base: answer(504, nil, ""), want: 1},
		"no response":           {base: fails(io.ErrUnexpectedEOF), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doubts := 0
			_, _ = send(t, &Chain{Base: c.base, Doubt: func() { doubts++ }}, http.MethodGet, "/api/v1/nodes/x")
			testkit.Equal(t, doubts, c.want, "doubts")
		})
	}
}

// The end of an app, which cancels its requests, says nothing about the remote.
func TestChain_NoDoubtAtTheEnd(t *testing.T) {
	t.Parallel()
	fence, end := context.WithCancel(t.Context())
	c := &Chain{Fence: fence, Doubt: func() { t.Error("a canceled request raises a doubt") }}
	c.Base = roundTrip(func(r *http.Request) (*http.Response, error) {
		end()
		return silent(r)
	})
	if _, err := send(t, c, http.MethodGet, "/api/v1/nodes/x"); err == nil {
		t.Error("a request succeeds after the end of the app")
	}
}
