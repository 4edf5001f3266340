// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Guard returns a transport that refuses requests which may change something while Check does. It
// goes into rest.Config.Wrap; requests that pass it are sent.
func (c *Candidacy) Guard(next http.RoundTripper) http.RoundTripper { return &guard{next, c.Check} }

type guard struct {
	next  http.RoundTripper
	check func() error
}

// RoundTrip sends the request or refuses it.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions || isReview(r) {
		return g.next.RoundTrip(r)
	}
	err := g.check()
	if err == nil {
		return g.next.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	if isEvent(r.URL.Path) {
		return forbidden(r, err)
	}
	return nil, err
}

// WrappedRoundTripper returns the guarded transport, for client-go.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// isReview reports whether a request asks for the hub's own permissions. It changes nothing, though it is a POST. A path
// of the same end behind a proxy of the API server leads elsewhere.
func isReview(r *http.Request) bool {
	before, kind, found := strings.Cut(r.URL.Path, "/apis/authorization.k8s.io/v1/")
	isKnown := kind == "selfsubjectaccessreviews" || kind == "selfsubjectrulesreviews"
	return found && isKnown && r.Method == http.MethodPost && !strings.Contains(before, "/proxy")
}

// isEvent reports whether a path is the path of the events of a namespace, or of a single event.
func isEvent(path string) bool {
	api, object, _ := strings.Cut(path, "/namespaces/")
	_, resource, _ := strings.Cut(object, "/")
	return (strings.HasSuffix(api, "/apis/events.k8s.io/v1") || strings.HasSuffix(api, "/api/v1")) &&
		(resource == "events" || strings.HasPrefix(resource, "events/"))
}

// forbidden returns an error like the API server's. Recorders of events drop an event that the API server
// refuses. On any other error they keep the event and try again, for two minutes and in a goroutine
// for each event, long after the hub has lost its lease.
func forbidden(r *http.Request, err error) (*http.Response, error) {
	body, encodeErr := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: metav1.StatusReasonForbidden,
		Code: http.StatusForbidden, Message: err.Error(),
	})
	if encodeErr != nil {
		return nil, err
	}
	return &http.Response{
		Status: "403 Forbidden", StatusCode: http.StatusForbidden,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": []string{"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}, nil
}
