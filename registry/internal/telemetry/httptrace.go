// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// requestTracer makes a span of each request to one side. otelhttp.Transport records the whole URL, and its span of a
// watch lasts as long as the watch. No header carries the trace: a remote that chose trace ids or recording would
// control the hub's spans. For a trusted remote, a middleware's Transport can inject the span of the request's context.
type requestTracer struct {
	*Tracer
	cluster string
	to      string
}

// The sides of requests.
const (
	ToRemote = "remote" // the remote
	ToHub    = "hub"    // the hub, on behalf of the remote
)

// Requests returns a function that sends a request within a span; nil for a nil Tracer. The span ends when the body is
// closed, that of a stream with the header.
func (t *Tracer) Requests(cluster, to string) transport.Interceptor {
	if t == nil {
		return nil
	}
	return (&requestTracer{t, cluster, to}).send
}

func (s *requestTracer) send(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	ctx, span := s.start(r)
	response, err := send(r.WithContext(ctx))
	if err != nil {
		s.FailRequest(span, err)
		span.End()
		return nil, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
	if response.StatusCode >= http.StatusBadRequest {
		Fail(span, strconv.Itoa(response.StatusCode))
	}
	if transport.IsStream(r) {
		span.End()
		return response, nil
	}
	response.Body = transport.OnClose(response.Body, func() { span.End() })
	return response, nil
}

func (s *requestTracer) start(r *http.Request) (context.Context, trace.Span) {
	resource, namespace := resourceOf(r.URL.Path)
	attributes := []attribute.KeyValue{
		attribute.String(ClusterLabel, s.cluster),
		attribute.String("to", s.to),
		attribute.String("http.request.method", r.Method),
		attribute.String("k8s.resource", resource),
	}
	if namespace != "" {
		attributes = append(attributes, attribute.String("k8s.namespace.name", namespace))
	}
	if module, known := s.options.Module(r.Context()); known {
		attributes = append(attributes, moduleKey.String(module))
	}
	if transport.IsStream(r) {
		attributes = append(attributes, attribute.Bool("watch", true))
	}
	return s.tracer.Start(r.Context(), r.Method+" "+resource,
		trace.WithAttributes(attributes...), trace.WithSpanKind(trace.SpanKindClient))
}

const (
	discoveryPath = "discovery"
	otherPath     = "other"
)

// resourceOf returns the resource of an API path, such as "deployments.apps/scale", and its namespace. It leaves out
// names, unknown paths, and what follows a proxy subresource, which may contain a name anywhere.
func resourceOf(path string) (resource, namespace string) {
	info := requestinfo.Of(path)
	switch {
	case info.Resource != "":
		return info.String(), info.Namespace
	case info.Version != "", isGroup.MatchString(path):
		return discoveryPath, ""
	}
	return endpointOf(path), ""
}

var isGroup = regexp.MustCompile(`/apis/[^/]+/*$`)

// endpointOf is for paths without resources, such as "readyz".
func endpointOf(path string) string {
	path = strings.TrimRight(path, "/")
	endpoint := path[strings.LastIndexByte(path, '/')+1:]
	switch endpoint {
	case "readyz", "livez", "healthz", "version":
		return endpoint
	case "api", "apis":
		return discoveryPath
	}
	return otherPath
}
