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

// requestTracer makes a span of each request to one side.
//
// It is not an otelhttp.Transport, because an otelhttp.Transport records the whole URL, with the host, the query and the names
// of objects, and because its span of a watch lasts as long as the watch. It does not propagate the trace in a header either:
// a remote that could choose trace ids or switch recording on would control which spans the hub sends to its collector. To send the
// trace to a trusted remote, use a middleware whose Transport injects the span of the context of the request.
type requestTracer struct {
	*Tracer
	cluster string
	to      string
}

// The sides that a request may go to.
const (
	ToRemote = "remote" // the remote
	ToHub    = "hub"    // the hub, on behalf of the remote
)

// Requests returns a function that sends a request within a span, and nil for a nil Tracer. The span ends when the body of the
// response is closed; the span of a stream ends with the header of the response.
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
	response.Body = &spanBody{response.Body, span}
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

// spanBody is the body of a response whose span ends when it is closed.
type spanBody struct {
	io.ReadCloser
	span trace.Span
}

// Close closes the body and ends the span. It may be called again.
func (b *spanBody) Close() error {
	defer b.span.End()
	return b.ReadCloser.Close()
}

// The values of the attribute k8s.resource for paths without a resource.
const (
	discoveryPath = "discovery"
	otherPath     = "other"
)

// resourceOf returns the resource of an API path, such as "deployments.apps/scale", and its namespace. It leaves out the name of
// the object, unknown paths, and the path behind a proxy subresource, all of which may contain a name anywhere.
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

// isGroup matches the path of the document that lists the versions of a group.
var isGroup = regexp.MustCompile(`/apis/[^/]+/*$`)

// endpointOf returns the name of a known endpoint without resources, such as "readyz".
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
