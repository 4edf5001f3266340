// SPDX-License-Identifier: Apache-2.0

package writegate

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
)

// Gate is a transport that sends what may change something only if Check returns nil. It does not wait, so that the
// answer holds when the request is sent. Next and Check are required.
type Gate struct {
	Next http.RoundTripper
	// Check must not block.
	Check func() error
	// Count is called before Check, and its result when the request was refused or has a response, or cannot take effect any more: a
	// request that was canceled or that a gateway has answered may be on its way. Default: no call.
	Count func() (answered func())
	// Refuse answers a refused request, and must close its body. Default: the error of Check.
	Refuse func(*http.Request, error) (*http.Response, error)
}

// RoundTrip sends the request or refuses it.
func (g *Gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions || isReview(r) {
		return g.Next.RoundTrip(r)
	}
	answered := func() {}
	if g.Count != nil {
		answered = g.Count()
	}
	if err := g.Check(); err != nil {
		defer answered()
		return Refuse(r, err, g.Refuse)
	}
	response, err := g.Next.RoundTrip(r)
	if err == nil && response.StatusCode < http.StatusBadGateway {
		answered()
	} else {
		time.AfterFunc(onItsWay, answered)
	}
	return response, err
}

const onItsWay = 5 * time.Second // onItsWay is how long a request without a response counts.

// WrappedRoundTripper returns the guarded transport, for client-go.
func (g *Gate) WrappedRoundTripper() http.RoundTripper { return g.Next }

// Refuse answers a refused event like an API server, so that the recorder drops it, and others with otherwise, or err
// if that is nil.
func Refuse(r *http.Request, err error, otherwise func(*http.Request, error) (*http.Response, error)) (*http.Response, error) {
	isEvent := writesEvent(r)
	if !isEvent && otherwise != nil {
		return otherwise(r, err)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	if isEvent {
		return forbidden(r, err)
	}
	return nil, err
}

// isReview: a question about the hub's own permissions is a POST that changes nothing.
func isReview(r *http.Request) bool {
	of := requestinfo.Of(r.URL.Path)
	return r.Method == http.MethodPost && of.Group == "authorization.k8s.io" && of.IsCollection() &&
		(of.Resource == "selfsubjectaccessreviews" || of.Resource == "selfsubjectrulesreviews")
}

func writesEvent(r *http.Request) bool {
	of := requestinfo.Of(r.URL.Path)
	return r.Method != http.MethodGet && of.Resource == "events" && (of.Group == "" || of.Group == "events.k8s.io")
}

// forbidden is an API server's refusal. On any other error recorders keep an event for two minutes, in a goroutine
// each, long after the hub has lost its lease.
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
