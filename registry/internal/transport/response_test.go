// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// endlessly responds with a status, a type, and endless zeros.
func endlessly(code int, form string) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {form}}, Body: io.NopCloser(zeros{}), ContentLength: -1,
		}, nil
	}
}

func ofType(form, body string) roundTrip {
	return answer(http.StatusOK, http.Header{"Content-Type": {form}}, body)
}

func TestChain_RefusesFormsThatItDidNotAskFor(t *testing.T) {
	t.Parallel()
	const list, watch, one = "/api/v1/pods", "/api/v1/pods?watch=true", "/api/v1/namespaces/x/pods/y/log"
	for _, c := range []struct {
		path, form string
		want       error
	}{
		{list, "application/json", nil},
		{list, "application/json;as=Table;v=v1;g=meta.k8s.io", nil},
		{list, "application/vnd.kubernetes.protobuf", nil},
		{list, "text/html", kubeconfig.ErrNotKubernetes},
		{list, "application/yaml", kubeconfig.ErrNotKubernetes},
		{list, "", kubeconfig.ErrNotKubernetes},
		{watch, "application/json", nil},
		{watch, "application/vnd.kubernetes.protobuf;stream=watch", nil},
		{watch, "text/plain", kubeconfig.ErrNotKubernetes},
		{watch, "application/cbor-seq", kubeconfig.ErrNotKubernetes},
		{one, "text/plain", nil},
		{one, "", nil},
		{one + "?follow=true", "text/plain", nil},
		{one, "application/yaml", kubeconfig.ErrNotKubernetes},
	} {
		if _, err := send(t, &Chain{Base: ofType(c.form, "{}")}, http.MethodGet, c.path); !errors.Is(err, c.want) {
			t.Errorf("%s as %q: got %v, want %v", c.path, c.form, err, c.want)
		}
	}
}

func TestChain_RefusesProtocolsThatItDidNotAskFor(t *testing.T) {
	t.Parallel()
	c := &Chain{Base: answer(http.StatusSwitchingProtocols, nil, "")}
	testkit.ErrorIs(t, testkit.Err(send(t, c, http.MethodGet, "/api/v1/pods?watch=true")), errUpgrade)
}

// A redirect is NotHealthy, and its message names it.
func TestChain_SaysThatThereWasARedirect(t *testing.T) {
	t.Parallel()
	_, err := send(t, &Chain{Base: answer(http.StatusFound, nil, "")}, http.MethodGet, "/api/v1/pods")
	if reason, message := kubeconfig.Classify(err); reason != "NotHealthy" || !strings.Contains(message, "redirect") {
		t.Errorf("got %s: %s, want NotHealthy with the redirect", reason, message)
	}
}

// Refusals have a limit, because client-go reads them to their end, even if it requested a stream.
func TestChain_BoundsRefusals(t *testing.T) {
	t.Parallel()
	const bound = 1 << 20 // as docs/security.md says
	for _, path := range []string{"/api/v1/pods", "/api/v1/pods?watch=true", "/api/v1/namespaces/x/pods/y"} {
		response, err := send(t, &Chain{Base: endlessly(http.StatusInternalServerError, "text/plain")}, http.MethodGet, path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if n, err := io.Copy(io.Discard, response.Body); n != bound || !errors.Is(err, meter.ErrTooLarge) {
			t.Errorf("%s: read %d bytes with error %v; want %d and ErrTooLarge", path, n, err, bound)
		}
	}
}

// ended is a body that ends when the request ends, and not before.
type ended struct{ r *http.Request }

func (e ended) Read([]byte) (int, error) {
	<-e.r.Context().Done()
	return 0, e.r.Context().Err()
}

func TestChain_RefusalsOfStreamsHaveADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: io.NopCloser(ended{r})}, nil
		})
		began := time.Now()
		response, err := send(t, &Chain{Base: base, Timeout: 3 * time.Second}, http.MethodGet, "/api/v1/pods?watch=true")
		must(t, err)
		if _, err := io.Copy(io.Discard, response.Body); err == nil || time.Since(began) != 3*time.Second {
			t.Errorf("read: got %v after %s, want an error after 3s", err, time.Since(began))
		}
	})
}

// A watch without data for three minutes ends, as if the API server had ended it.
func TestChain_EndsSilentWatches(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]time.Duration{
		"/api/v1/pods?watch=true&allowWatchBookmarks=true":     MaxSilence + time.Minute, // one line arrives after a minute
		"/api/v1/pods?watch=true":                              time.Hour,                // the request is without bookmarks
		"/api/v1/namespaces/x/pods/y/log?follow=true&x=allows": time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			fence, cut := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Hour, func() { cut(errFence) })
			base := roundTrip(func(r *http.Request) (*http.Response, error) {
				lines, body := io.Pipe()
				time.AfterFunc(time.Minute, func() { _, _ = body.Write([]byte("{}\n")) })
				context.AfterFunc(r.Context(), func() { body.CloseWithError(r.Context().Err()) })
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: lines}, nil
			})
			began := time.Now()
			response, err := send(t, &Chain{Base: base, Fence: fence}, http.MethodGet, path)
			must(t, err)
			n, err := io.Copy(io.Discard, response.Body)
			if took := time.Since(began); n != 3 || took != want || (err == nil) != (want < time.Hour) {
				t.Errorf("%s: got %d bytes and %v after %s; want an end after %s", path, n, err, took, want)
			}
			response.Body.Close()
		})
	}
}

type quote struct{ begun bool }

func (q *quote) Read(p []byte) (int, error) {
	if !q.begun && len(p) > 0 {
		p[0], q.begun = '"', true
		return 1, nil
	}
	clear(p)
	return len(p), nil
}

func TestChain_BoundsLists(t *testing.T) {
	t.Parallel()
	base := roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: io.NopCloser(&quote{}), ContentLength: -1,
		}, nil
	})
	const bound = 80 << 20 // as docs/security.md says
	for keep, want := range map[int64]int64{0: bound, bound: bound, 3 * bound: 3 * bound / 2} {
		response, err := send(t, &Chain{Base: base, Meter: meter.NewLimiter(nil, keep)}, http.MethodGet, "/api/v1/pods")
		must(t, err)
		if n, err := io.Copy(io.Discard, response.Body); n != want || !errors.Is(err, meter.ErrTooLarge) {
			t.Errorf("an app that keeps %d: read %d bytes with error %v; want %d and ErrTooLarge", keep, n, err, want)
		}
	}
}

func TestChain_BoundsWhatAnAnswerTurnsInto(t *testing.T) {
	t.Parallel()
	body := `{"items":[` + strings.Repeat("{},", 100) + `{}]}`
	for keep, want := range map[int64]error{0: nil, (50_000 - meter.MaxOverCache) / meter.Growth: meter.ErrTooLarge} {
		response, err := send(t, &Chain{Base: ofType(runtime.ContentTypeJSON, body), Meter: meter.NewLimiter(nil, keep)}, http.MethodGet, "/api/v1/pods")
		must(t, err)
		if _, err := io.Copy(io.Discard, response.Body); !errors.Is(err, want) {
			t.Errorf("an app that keeps %d bytes: got %v, want %v", keep, err, want)
		}
	}
}

// All responses to an app together arrive no faster than objects can be decoded from them.
func TestChain_HoldsUpWhatComesTooFast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Chain{Base: endlessly(http.StatusOK, "text/plain"), Meter: meter.NewLimiter(nil, 0), Timeout: time.Hour}
		read := func() {
			response, err := send(t, c, http.MethodGet, "/api/v1/namespaces/x/pods/y/log")
			must(t, err)
			if _, err = io.CopyN(io.Discard, response.Body, maxBody); err != nil {
				t.Errorf("read: got %v", err)
			}
		}
		began := time.Now()
		read()
		if took := time.Since(began); took > 0 {
			t.Errorf("a single response took %s, want no time", took)
		}
		for range 9 {
			read()
		}
		most := c.Meter.Limit + meter.ReadingCost*meter.MaxListBody
		want := time.Duration(10*meter.ReadingCost*maxBody-most) * time.Second / meter.ReadRate
		if took := time.Since(began); took < want-time.Second || took > want+time.Second {
			t.Errorf("ten responses took %s, want %s", took, want)
		}
	})
}

// A read that waits for the rate of responses ends when the fence closes.
func TestChain_NobodyWaitsBehindTheFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fence, cut := context.WithCancelCause(t.Context())
		c := &Chain{Base: endlessly(http.StatusOK, "text/plain"), Meter: meter.NewLimiter(nil, 0), Timeout: time.Hour, Fence: fence}
		must(t, c.Meter.Wait(t.Context(), int64(c.Meter.Pace.Burst())))
		response, err := send(t, c, http.MethodGet, "/api/v1/nodes/x")
		must(t, err)
		time.AfterFunc(10*time.Millisecond, func() { cut(errFence) })
		began := time.Now()
		_, err = io.Copy(io.Discard, response.Body)
		if took := time.Since(began); err == nil || took > 10*time.Millisecond {
			t.Errorf("got %v after %s, want an error when the fence closes", err, took)
		}
	})
}

// A request tries few connections to a server that closes each of them, with pauses.
func TestChain_TriesFewConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tried := 0
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			for r.Context().Err() == nil { // like net/http
				tried++
				httptrace.ContextClientTrace(r.Context()).GetConn("remote:443")
			}
			return nil, r.Context().Err()
		})
		began := time.Now()
		_, err := send(t, &Chain{Base: base, Timeout: time.Minute}, http.MethodGet, "/api/v1/nodes/x")
		if !errors.Is(err, ErrConnections) || tried != connectionsAtMost+1 {
			t.Errorf("got %v after %d connections, want ErrConnections after %d", err, tried, connectionsAtMost+1)
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("gave up after %s, want pauses", took)
		}
	})
}

// A deadline means that the server is slow, unless the server has closed all connections before it.
func TestChain_DeadlineAfterClosedConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		connections int
		closes      bool
	}{
		"a server that is slow":                                       {1, false},
		"a server that has restarted, and is slow":                    {connectionsAtOnce, false},
		"a server that closes every connection, and a hub that waits": {connectionsAtOnce + 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				base := roundTrip(func(r *http.Request) (*http.Response, error) {
					for range c.connections {
						httptrace.ContextClientTrace(r.Context()).GetConn("remote:443")
					}
					<-r.Context().Done()
					return nil, r.Context().Err()
				})
				_, err := send(t, &Chain{Base: base, Timeout: time.Second}, http.MethodGet, "/api/v1/nodes/x")
				if errors.Is(err, ErrConnections) != c.closes || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v; closes connections: %t", err, c.closes)
				}
			})
		})
	}
}

// Every body that is decoded is measured, regardless of its media type; a body without a media type is text.
func TestChain_MeasuresWhateverIsDecoded(t *testing.T) {
	t.Parallel()
	list := runtime.Unknown{
		TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Raw: []byte(strings.Repeat("\x12\x00", 40_000)),
	}
	data, err := list.Marshal()
	must(t, err)
	pods := "k8s\x00" + string(data)
	for name, c := range map[string]struct {
		code       int
		form, path string
	}{
		"protobuf":              {http.StatusOK, runtime.ContentTypeProtobuf, "/api/v1/pods"},
		"of one object":         {http.StatusOK, runtime.ContentTypeProtobuf, "/api/v1/namespaces/x/pods/y"},
		"not authoritative":     {http.StatusNonAuthoritativeInfo, runtime.ContentTypeProtobuf, "/api/v1/pods"},
		"no name":               {http.StatusOK, "", "/api/v1/namespaces/x/pods/y"},
		"no name of a list":     {http.StatusNonAuthoritativeInfo, "", "/api/v1/pods"},
		"an unknown name":       {http.StatusCreated, "x", "/api/v1/namespaces/x/pods/y"},
		"no name of a refusal":  {http.StatusForbidden, "", "/api/v1/pods"},
		"a refusal in YAML":     {http.StatusForbidden, "application/yaml", "/api/v1/pods"},
		"YAML of another code":  {http.StatusNonAuthoritativeInfo, "application/yaml", "/api/v1/pods"},
		"a refusal in protobuf": {http.StatusForbidden, runtime.ContentTypeProtobuf, "/api/v1/pods"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{}
			if c.form != "" {
				header.Set("Content-Type", c.form)
			}
			response, err := send(t, &Chain{Base: answer(c.code, header, pods), Meter: meter.NewLimiter(meter.NewSchemas(scheme.Scheme), 0)}, http.MethodGet, c.path)
			if err != nil {
				return // refused before it is read
			}
			form := MediaType(response)
			if _, err = io.Copy(io.Discard, response.Body); err == nil && form != "text/plain" && form != "x" {
				t.Errorf("response of type %s would be decoded", form)
			}
		})
	}
}

// Data of a list excuses a late probe response of the remote, events of a watch do not.
func TestChain_HearsLists(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/api/v1/pods": true, "/api/v1/namespaces/x/pods/y": false,
		"/api/v1/pods?watch=true&sendInitialEvents=true": true,
		"/api/v1/pods?watch=true":                        false,
	} {
		synctest.Test(t, func(t *testing.T) {
			var heard atomic.Int64
			response, err := send(t, &Chain{Base: ofType(runtime.ContentTypeJSON, "{}{}"), Heard: &heard}, http.MethodGet, path)
			must(t, err)
			read := func() bool {
				heard.Store(0)
				if n, err := response.Body.Read(make([]byte, 2)); n != 2 {
					t.Fatalf("%s: read %d bytes, error %v", path, n, err)
				}
				return heard.Load() == time.Now().UnixNano()
			}
			if got := read(); got != want {
				t.Errorf("%s: got heard %v, want %v", path, got, want)
			}
			time.Sleep(listTimeout) //nolint:forbidigo // The time of a bubble costs none.
			if want && strings.Contains(path, "watch") && read() {
				t.Errorf("events of %s still count as heard", path)
			}
			response.Body.Close()
		})
	}
}

// countingObserver wants two added objects.
type countingObserver struct {
	noObserver
	added int
}

func (o *countingObserver) Added() (more bool) {
	o.added++
	return o.added < 2
}

// The observer of a watch that begins with a list hears of added objects until it wants no more.
func TestChain_Added(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]int{"&sendInitialEvents=true": 2, "": 0} {
		for form, event := range map[string]string{
			runtime.ContentTypeJSON:     `{"type":"ADDED","object":{}}`,
			runtime.ContentTypeProtobuf: "\x00\x00\x00\x09\n\x05ADDED\x12\x00",
		} {
			one := func() io.Reader { return strings.NewReader(event) }
			base := roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{
					StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {form}}, Body: io.NopCloser(io.MultiReader(one(), one(), one())),
				}, nil
			})
			observer := &countingObserver{}
			r, err := http.NewRequestWithContext(WithObserver(t.Context(), observer), http.MethodGet,
				"https://remote/api/v1/pods?watch=true&allowWatchBookmarks=true"+query, nil)
			must(t, err)
			response, err := (&Chain{
				Base: base, Fence: t.Context(), Timeout: time.Minute, Meter: meter.NewLimiter(meter.NewSchemas(nil), 1<<20),
			}).RoundTrip(r)
			must(t, err)
			_, err = io.Copy(io.Discard, response.Body)
			must(t, errors.Join(err, response.Body.Close()))
			testkit.Equal(t, observer.added, want, form+query)
		}
	}
}
