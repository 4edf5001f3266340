// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"context"
	"net/http"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
)

// Early are documents requested before the app that needs them, because they take a round trip. The app decodes them,
// once.
type Early struct {
	server   server
	mappings *Mappings
	done     chan struct{}

	// The fields below are set before done is closed.
	found documents
	err   error
	ended time.Time
}

// maxEarly exceeds real documents: a server may not make the hub keep more for an app that does not start. maxEarlyAge:
// an app may start long after the first contact.
const (
	maxEarly    = 1 << 20 // bytes of each
	maxEarlyAge = time.Minute
)

// NewEarly returns Early that Request completes.
func (m *Mappings) NewEarly(host string, client *http.Client) *Early {
	return &Early{mappings: m, server: server{host: host, client: client}, done: make(chan struct{})}
}

// Request requests the documents, once, and returns when it has them or ctx has ended.
func (e *Early) Request(ctx context.Context) {
	defer close(e.done)
	e.err = panics.Catch(func() error { return e.request(ctx) })
	e.ended = time.Now()
}

func (e *Early) request(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil {
		return err // The remote may be gone.
	}
	e.server.known, e.server.most = e.mappings.latest(), maxEarly
	if e.found, err = e.server.documents(ctx); err != nil {
		return err
	}
	if shared := e.mappings.lookup(e.found.key(e.server.known)); shared != nil { // Then the bodies need not be kept.
		e.server.known, e.found = shared, documents{{unchanged: true}, {unchanged: true}}
	}
	return nil
}

// take returns the documents, with the mapping whose documents they may leave out, or nil: then they must be requested
// again. One goroutine may call it, once.
func (e *Early) take(ctx context.Context) (*documents, *mapping) {
	if e == nil {
		return nil, nil
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		return nil, nil
	}
	if e.err != nil || time.Since(e.ended) >= maxEarlyAge {
		return nil, nil
	}
	found, known := e.found, e.server.known
	e.found, e.server.known = documents{}, nil // The app may keep e for as long as it runs.
	return &found, known
}
