// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// RequestTracer makes a span of each request to one side: a remote, or the hub on behalf of a remote.
//
// It is no otelhttp.Transport because that records the whole URL, with its host, its query and the names of
// objects, and keeps the span of a watch for as long as the watch. It sends no header either: which traces a
// hub collects is nobody else's business, and a remote that could choose their ids or switch their recording
// on would decide what the hub sends to its collector. A Decoration whose Transport injects the span of the
// request's context is how somebody sends them to a remote that is trusted.
type RequestTracer struct {
	*Tracer
	cluster string
	to      string
}

// The sides that a request may go to.
const (
	ToRemote = "remote"
	ToHub    = "hub"
)

// Requests returns what makes spans of requests to a side, or nil.
func (s *Tracer) Requests(cluster, to string) *RequestTracer {
	if s == nil {
		return nil
	}
	return &RequestTracer{s, cluster, to}
}

// Interceptor returns what a chain calls with each request.
func (s *RequestTracer) Interceptor() transport.Interceptor {
	if s == nil {
		return nil
	}
	return s.Send
}

// Send sends a request within a span. The span ends with the body of the answer, and with its header where
// the answer is a stream. A nil one sends the request.
func (s *RequestTracer) Send(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	if s == nil {
		return send(r)
	}
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
	response.Body = &spanBody{response.Body, span}
	return response, nil
}

func (s *RequestTracer) start(r *http.Request) (context.Context, trace.Span) {
	resource, namespace := resourceOf(r.URL.Path)
	about := []attribute.KeyValue{
		attribute.String(ClusterLabel, s.cluster),
		attribute.String("to", s.to),
		attribute.String("http.request.method", r.Method),
		attribute.String("k8s.resource", resource),
	}
	if namespace != "" {
		about = append(about, attribute.String("k8s.namespace.name", namespace))
	}
	if module, known := s.reading.Module(r.Context()); known {
		about = append(about, moduleKey.String(module))
	}
	if transport.IsStream(r) {
		about = append(about, attribute.Bool("watch", true))
	}
	return s.tracer.Start(r.Context(), r.Method+" "+resource,
		trace.WithAttributes(about...), trace.WithSpanKind(trace.SpanKindClient))
}

// spanBody is the body of an answer that a span ends with.
type spanBody struct {
	io.ReadCloser
	span trace.Span
}

// Close ends the answer and the span. It may be called again.
func (b *spanBody) Close() error {
	defer b.span.End()
	return b.ReadCloser.Close()
}

// Names for what is no resource.
const (
	discoveryPage = "discovery"
	elsewhere     = "other"
)

// resourceOf returns the resource that an API path is about, such as "deployments.apps/scale", and its namespace. It leaves
// out the name of the object, every path that is unknown, and what a proxy of the API server gets, which may contain a
// name anywhere.
func resourceOf(path string) (resource, namespace string) {
	info := requestinfo.Of(path)
	switch {
	case info.Resource != "":
		return info.String(), info.Namespace
	case info.Version != "", isGroup.MatchString(path):
		return discoveryPage, ""
	}
	return pageOf(path), ""
}

// isGroup matches the path of the document that lists the versions of a group.
var isGroup = regexp.MustCompile(`/apis/[^/]+/*$`)

func pageOf(path string) string {
	path = strings.TrimRight(path, "/")
	page := path[strings.LastIndexByte(path, '/')+1:]
	switch page {
	case "readyz", "livez", "healthz", "version":
		return page
	case "api", "apis":
		return discoveryPage
	}
	return elsewhere
}
