// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Lagging returns the server with managers whose caches get watch events late. Live reads and writes are not delayed.
func (s *Server) Lagging(lag time.Duration) *Server {
	other := *s
	other.config = rest.CopyConfig(s.config)
	other.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &lagging{next: next, lag: lag} })
	return &other
}

type lagging struct {
	next http.RoundTripper
	lag  time.Duration
}

func (l *lagging) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err != nil || !r.URL.Query().Has("watch") {
		return response, err
	}
	b := &lateBody{ReadCloser: response.Body, closed: make(chan struct{}), parts: make(chan part, 1024)}
	b.reading.Go(func() { b.read(l.lag) })
	response.Body = b
	return response, nil
}

type part struct {
	data []byte
	err  error
	due  time.Time
}

type lateBody struct {
	io.ReadCloser

	reading sync.WaitGroup
	parts   chan part
	rest    part
	closed  chan struct{}
	once    sync.Once
}

func (b *lateBody) read(lag time.Duration) {
	for {
		buffer := make([]byte, 32<<10)
		n, err := b.ReadCloser.Read(buffer)
		select {
		case b.parts <- part{data: buffer[:n], err: err, due: time.Now().Add(lag)}:
		case <-b.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

func (b *lateBody) Read(p []byte) (int, error) {
	for len(b.rest.data) == 0 {
		if b.rest.err != nil {
			return 0, b.rest.err
		}
		select {
		case b.rest = <-b.parts:
		case <-b.closed:
			return 0, errClosed
		}
		due := time.NewTimer(time.Until(b.rest.due))
		select {
		case <-due.C:
		case <-b.closed:
			due.Stop()
			return 0, errClosed
		}
	}
	n := copy(p, b.rest.data)
	b.rest.data = b.rest.data[n:]
	return n, nil
}

var errClosed = errors.New("the body is closed")

func (b *lateBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	err := b.ReadCloser.Close()
	b.reading.Wait()
	return err
}
