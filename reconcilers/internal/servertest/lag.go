// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// Lagging returns the server with managers whose caches get watch events late. Live reads and writes are not delayed.
func (s *Server) Lagging(lag time.Duration) *Server {
	other := *s
	other.config = rest.CopyConfig(s.config)
	other.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return lagging{next, lag} })
	return &other
}

type lagging struct {
	next http.RoundTripper
	lag  time.Duration
}

func (l lagging) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err == nil && r.URL.Query().Has("watch") {
		response.Body = lateBody{response.Body, r.Context(), l.lag}
	}
	return response, err
}

type lateBody struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // Of the request.
	lag time.Duration
}

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	late := time.NewTimer(b.lag)
	defer late.Stop()
	select {
	case <-late.C:
	case <-b.ctx.Done():
	}
	return n, err
}
