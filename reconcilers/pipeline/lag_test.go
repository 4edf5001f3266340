// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// late delays the watch events that caches get. Live reads and writes are not delayed.
func late(c *rest.Config) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return lagging{next} })
}

const lag = 500 * time.Millisecond

type lagging struct{ next http.RoundTripper }

func (l lagging) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err == nil && r.URL.Query().Has("watch") {
		response.Body = lateBody{response.Body, r.Context()}
	}
	return response, err
}

type lateBody struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // Of the request.
}

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	timer := time.NewTimer(lag)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.ctx.Done():
	}
	return n, err
}
