// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// requestSpans makes a span of each request to one side: a remote, or the hub on behalf of a remote.
//
// It is no otelhttp.Transport because that records the whole URL, with its host, its query and the names of
// objects, and keeps the span of a watch for as long as the watch. It sends no header either: which traces a
// hub collects is nobody else's business, and a remote that could choose their ids or switch their recording
// on would decide what the hub sends to its collector. A Decoration whose Transport injects the span of the
// request's context is how somebody sends them to a remote that is trusted.
type requestSpans struct {
	*spans
	cluster ClusterName
	to      string
}

// The sides that a request may go to.
const (
	toRemote = "remote"
	toHub    = "hub"
)

// of returns what makes spans of requests to a side, or nil.
func (s *spans) of(cluster ClusterName, to string) *requestSpans {
	if s == nil {
		return nil
	}
	return &requestSpans{s, cluster, to}
}

// around returns what a chain calls with each request.
func (s *requestSpans) around() around {
	if s == nil {
		return nil
	}
	return s.send
}

// send sends a request within a span. The span ends with the body of the answer, and with its header where
// the answer is a stream. A nil one sends the request.
func (s *requestSpans) send(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	if s == nil {
		return send(r)
	}
	ctx, span := s.start(r)
	response, err := send(r.WithContext(ctx))
	if err != nil {
		failed(span, reasonOfRequest(err))
		span.End()
		return nil, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
	if response.StatusCode >= http.StatusBadRequest {
		failed(span, strconv.Itoa(response.StatusCode))
	}
	if isStream(r) {
		span.End()
		return response, nil
	}
	response.Body = &spanBody{response.Body, span}
	return response, nil
}

func (s *requestSpans) start(r *http.Request) (context.Context, trace.Span) {
	resource, namespace := targetOf(r.URL.Path)
	about := []attribute.KeyValue{
		attribute.String(clusterLabel, string(s.cluster)),
		attribute.String("to", s.to),
		attribute.String("http.request.method", r.Method),
		attribute.String("k8s.resource", resource),
	}
	if namespace != "" {
		about = append(about, attribute.String("k8s.namespace.name", namespace))
	}
	if g, ok := r.Context().Value(guardKey{}).(*guard); ok {
		about = append(about, moduleKey.String(g.module))
	}
	if isStream(r) {
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

// targetOf returns the resource that an API path is about, such as "deployments.apps/scale", and its
// namespace. It leaves the name of the object out, every path that it does not know, and what is behind a
// proxy of the API server, where a name may be anywhere.
func targetOf(path string) (resource, namespace string) {
	group, namespace, parts := splitPath(path)
	switch {
	case parts == nil:
		return pageOf(path), ""
	case len(parts) == 0:
		return discoveryPage, ""
	}
	resource = parts[0]
	if group != "" {
		resource += "." + group
	}
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	return resource, namespace
}

// splitPath returns the group and the namespace that an API path is about, and the parts of the path that come after them: a
// resource, the name of an object, and a subresource. There are none in a path of discovery, and nil in any other path.
func splitPath(path string) (group, namespace string, parts []string) {
	before, rest, found := strings.Cut(path, "/api/")
	if beforeGroup, afterGroup, grouped := strings.Cut(path, "/apis/"); grouped && (!found || len(beforeGroup) < len(before)) {
		group, rest, _ = strings.Cut(afterGroup, "/")
	} else if !found {
		return "", "", nil
	}
	parts = strings.Split(strings.Trim(rest, "/"), "/")[1:] // without the version
	if len(parts) > 2 && parts[0] == "namespaces" && !isNamespacePart(parts[2]) {
		namespace, parts = parts[1], parts[2:]
	}
	return group, namespace, parts
}

// isNamespacePart reports whether what comes after the name of a namespace belongs to the object of that name.
func isNamespacePart(part string) bool { return part == "status" || part == "finalize" }

func pageOf(path string) string {
	page := path[strings.LastIndexByte(path, '/')+1:]
	switch page {
	case "readyz", "livez", "healthz", "version":
		return page
	case "api", "apis":
		return discoveryPage
	}
	return elsewhere
}
