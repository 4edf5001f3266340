// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// A span has the resource and the namespace of a request.
func TestRequestSpans_Resource(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][2]string{
		"/api/v1/pods":                                    {"pods", ""},
		"/api/v1/namespaces/x/pods/y":                     {"pods", "x"},
		"/api/v1/namespaces/x/pods/y/log":                 {"pods/log", "x"},
		"/api/v1/namespaces":                              {"namespaces", ""},
		"/api/v1/namespaces/x":                            {"namespaces", ""},
		"/api/v1/namespaces/x/finalize":                   {"namespaces/finalize", ""},
		"/apis/apps/v1/namespaces/x/deployments/y/scale":  {"deployments.apps/scale", "x"},
		"/apis/example.com/v1/widgets/secret-name":        {"widgets.example.com", ""},
		"/k8s/clusters/c-1/apis/apps/v1/deployments":      {"deployments.apps", ""},
		"/k8s/clusters/c-1/api/v1/namespaces/kube-system": {"namespaces", ""},
		"/apis/apps/v1":                                   {"discovery", ""},
		"/apis/apps":                                      {"discovery", ""},
		"/api/v1":                                         {"discovery", ""},
		"/apis":                                           {"discovery", ""},
		"/api":                                            {"discovery", ""},
		"/readyz":                                         {"readyz", ""},
		"/k8s/clusters/c-1/version":                       {"version", ""},
		"/openapi/v3/secret-name":                         {"other", ""},
		"/api/v1/namespaces/x/services/y/proxy/apis/z/v1/sesame": {"services/proxy", "x"},
		"/apis/z/v1/widgets/y/proxy/api/v1/sesame":               {"widgets.z/proxy", ""},
		"":        {"other", ""},
		"/api/":   {"discovery", ""},
		"/apis/":  {"discovery", ""},
		"//api//": {"discovery", ""},
		"/apis/authorization.k8s.io/v1/selfsubjectrulesreviews": {"selfsubjectrulesreviews.authorization.k8s.io", ""},
	} {
		s, recorder := traced(t)
		response, err := sendVia(t, &transport.Chain{Base: ofStatus(http.StatusOK), Intercept: s.Requests("one", telemetry.ToRemote)}, http.MethodGet, path)
		must(t, err)
		response.Body.Close()
		about := attributesOf(recorder)["GET "+want[0]]
		if got := [2]string{about["k8s.resource"], about["k8s.namespace.name"]}; got != want {
			t.Errorf("the span of %s has the resource %v, want %v", path, got, want)
		}
	}
}

// testOptions has one reason for a stopped app, and another reason for every other error.
var testOptions = telemetry.TracerOptions{
	RequestReason: func(err error) string {
		if errors.Is(err, errStopped) {
			return telemetry.ReasonCanceled
		}
		return "NotHealthy"
	},
	Module: func(context.Context) (string, bool) { return "", false },
}

var errStopped = errors.New("stopped")

func traced(t *testing.T) (*telemetry.Tracer, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	return telemetry.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)), testOptions), recorder
}

// attributesOf returns the attributes of the ended spans, by name.
func attributesOf(recorder *tracetest.SpanRecorder) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, s := range recorder.Ended() {
		about := map[string]string{"status": s.Status().Code.String()}
		for _, a := range s.Attributes() {
			about[string(a.Key)] = fmt.Sprint(a.Value.AsInterface())
		}
		all[s.Name()] = about
	}
	return all
}

// A span has the resource of a request, but not the host, the query or the name of the object. The remote receives no
// data of the trace.
func TestRequestSpans(t *testing.T) {
	t.Parallel()
	s, recorder := traced(t)
	var sent http.Header
	base := testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
		sent = r.Header
		return ofStatus(http.StatusNotFound)(r)
	})
	response, err := sendVia(t, &transport.Chain{Base: base, Intercept: s.Requests("one", telemetry.ToRemote)}, http.MethodPatch,
		"/api/v1/namespaces/x/secrets/sesame?fieldManager=sesame")
	must(t, err)
	if len(recorder.Ended()) != 0 {
		t.Error("span has ended before the response was read")
	}
	response.Body.Close()
	want := map[string]map[string]string{"PATCH secrets": {
		"cluster": "one", "to": "remote", "http.request.method": "PATCH", "k8s.resource": "secrets",
		"k8s.namespace.name": "x", "http.response.status_code": "404", "error.type": "404", "status": codes.Error.String(),
	}}
	testkit.Equal(t, attributesOf(recorder), want)
	testkit.Equal(t, sent, http.Header{"User-Agent": {""}}, "headers sent to the remote")
}

// The span of a watch ends with the header of the response.
func TestRequestSpans_OfAWatch(t *testing.T) {
	t.Parallel()
	s, recorder := traced(t)
	must(t, testkit.Err(sendVia(t, &transport.Chain{Base: ofStatus(http.StatusOK), Intercept: s.Requests("one", telemetry.ToRemote)}, http.MethodGet, "/api/v1/pods?watch=true")))
	if got := attributesOf(recorder)["GET pods"]; got["watch"] != "true" || got["http.response.status_code"] != "200" {
		t.Errorf("got attributes %v", got)
	}
}

func TestRequestSpans_Failures(t *testing.T) {
	t.Parallel()
	closed, closeFence := context.WithCancelCause(t.Context())
	closeFence(errStopped)
	for want, c := range map[string]*transport.Chain{
		telemetry.ReasonCanceled: {Base: ofStatus(http.StatusOK), Fence: closed},
		"NotHealthy": {Base: testkit.RoundTrip(func(*http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("sesame: %w", transport.ErrConnections)
		})},
	} {
		s, recorder := traced(t)
		c.Intercept = s.Requests("one", telemetry.ToRemote)
		if _, err := sendVia(t, c, http.MethodGet, "/api/v1/pods"); err == nil {
			t.Errorf("%s: RoundTrip succeeds", want)
		}
		ended, status := attributesOf(recorder)["GET pods"], codes.Error
		if want == telemetry.ReasonCanceled {
			status = codes.Unset
		}
		if ended["error.type"] != want || ended["status"] != status.String() {
			t.Errorf("%s: got attributes %v", want, ended)
		}
	}
}

// If no traces are collected, a span does not allocate.
func TestRequestSpans_CostNothingWhenOff(t *testing.T) {
	var off *telemetry.Tracer
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://remote/api/v1/pods", nil)
	if off.Requests("one", telemetry.ToRemote) != nil {
		t.Error("requests without a tracer have spans")
	}
	if n := testing.AllocsPerRun(100, func() {
		ctx, span := off.Start(r.Context(), "WithClient", "one")
		if ctx != r.Context() {
			t.Error("Start returns another context")
		}
		off.FailRequest(span, errStopped)
		span.End()
	}); n > 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
	if telemetry.NewTracer(nil, testOptions) != nil {
		t.Error("NewTracer returns a tracer without a provider")
	}
	if n := testing.AllocsPerRun(100, func() {
		_, span := off.StartReconcile(r.Context(), "one", "m", 1)
		telemetry.EndReconcile(span, "success", nil)
	}); n > 0 {
		t.Errorf("reconcile: got %v allocations, want 0", n)
	}
}

// ofStatus sends a response with an empty JSON object.
func ofStatus(code int) testkit.RoundTrip {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: io.NopCloser(strings.NewReader("{}")),
		}, nil
	}
}

func sendVia(t *testing.T, c *transport.Chain, method, path string) (*http.Response, error) {
	t.Helper()
	c.Timeout = time.Second
	c.Meter = meter.NewLimiter(meter.NewSchemas(nil), 256<<20)
	if c.Fence == nil {
		c.Fence = t.Context()
	}
	r := testkit.Request(t, method, "https://remote"+path)
	response, err := c.RoundTrip(r)
	if err == nil {
		t.Cleanup(func() { response.Body.Close() })
	}
	return response, err
}
