// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
)

// Early are documents requested before the app that needs them, because they take a round trip. The app decodes them,
// once.
type Early struct {
	mappings *Mappings
	done     chan struct{}

	// The fields below are set before done is closed.
	found documents
	known *mapping // of the documents that found has without a body
	err   error
	ended time.Time
}

// maxEarly exceeds real documents: a server may not make the hub keep more for an app that does not start. maxEarlyAge:
// an app may start long after the first contact.
const (
	maxEarly    = 2 << 20
	maxEarlyAge = time.Minute
)

var errUsed = errors.New("the documents were used")

var errEarlyTooLarge = errors.New("the discovery documents are too large to be kept for an app that has not started")

// NewEarly returns Early that Request completes.
func (m *Mappings) NewEarly() *Early {
	return &Early{mappings: m, done: make(chan struct{})}
}

// Request requests the documents, once, and returns when it has them or ctx has ended.
func (e *Early) Request(ctx context.Context, host string, client *http.Client) {
	defer close(e.done)
	e.err = panics.Catch(func() error { return e.request(ctx, host, client) })
	e.ended = time.Now()
}

func (e *Early) request(ctx context.Context, host string, client *http.Client) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.known = e.mappings.latest()
	left := newAllowance()
	left.bytes = maxEarly
	e.found, err = server{host: host, client: client, left: left, known: e.known}.documents(ctx)
	switch {
	case errors.Is(err, errDocumentTooLarge):
		return errEarlyTooLarge
	case err != nil:
		return err
	case !e.found.unchanged():
		if shared := e.mappings.lookup(e.found.key(e.known)); shared != nil { // Then the bodies need not be kept.
			e.known, e.found = shared, documents{{unchanged: true}, {unchanged: true}}
		}
	}
	return nil
}

// await returns the documents, with the mapping whose documents they may leave out; nil without usable ones, which must
// be requested again; an error if they could not be requested while it waited. One goroutine may call it.
func (e *Early) await(ctx context.Context) (*documents, *mapping, error) {
	if e == nil {
		return nil, nil, nil
	}
	waited := false
	select {
	case <-e.done:
	default:
		waited = true
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	switch {
	case e.err == nil && time.Since(e.ended) < maxEarlyAge:
		found, known := e.found, e.known
		e.found, e.known, e.err = documents{}, nil, errUsed // The app may keep e for as long as it runs.
		return &found, known, nil
	case waited && !errors.Is(e.err, context.Canceled) && !errors.Is(e.err, errEarlyTooLarge):
		return nil, nil, e.err
	}
	return nil, nil, nil
}
