// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"context"
	"net/http"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
)

// Mappings shares REST mappings between remotes with the same discovery documents. The zero value is ready to use.
//
// The key is a hash of the documents. An ETag saves the transfer: a server is asked whether it has the documents that
// another one had a moment ago. Only ETags that were computed here are asked for, so a remote that lies gets a wrong
// mapping for itself alone.
type Mappings struct {
	mu     sync.Mutex // protects the fields; never held across a request
	shared map[documentsKey]weak.Pointer[mapping]
	last   weak.Pointer[mapping] // the one that was used last
}

// mapping is freed with the last app that uses it.
type mapping struct {
	meta.RESTMapper
	key  documentsKey
	tags [2]string // the ETags of the documents; empty where the server computes them in another way
}

// Remote is an API server whose API is discovered.
type Remote struct {
	Host   string
	Client *http.Client
	Early  *Early
}

// NewMapper returns a mapper after a first discovery with ctx. Later ones run with life, the context of the app.
func (m *Mappings) NewMapper(ctx, life context.Context, r Remote) (meta.RESTMapper, error) {
	first, err := m.first(ctx, r)
	if err != nil {
		return nil, err
	}
	return newMapper(first, func() (*mapping, error) { return m.discover(life, m.server(r)) }), nil
}

// first prefers usable early documents.
func (m *Mappings) first(ctx context.Context, r Remote) (*mapping, error) {
	s := m.server(r)
	found, known := r.Early.take(ctx)
	if found == nil {
		return m.discover(ctx, s)
	}
	s.known = known
	return m.mappingOf(ctx, s, *found)
}

func (m *Mappings) server(r Remote) server {
	return server{host: r.Host, client: r.Client, most: maxDocument, known: m.latest()}
}

func (m *Mappings) discover(ctx context.Context, s server) (*mapping, error) {
	found, err := s.documents(ctx)
	if err != nil {
		return nil, err
	}
	return m.mappingOf(ctx, s, found)
}

// mappingOf requests what the documents do not contain.
func (m *Mappings) mappingOf(ctx context.Context, s server, found documents) (*mapping, error) {
	if found.unchanged() {
		return s.known, nil
	}
	if shared := m.lookup(found.key(s.known)); shared != nil {
		return shared, nil
	}
	if err := s.complete(ctx, &found); err != nil {
		return nil, err
	}
	parsed, err := found.parse()
	if err != nil {
		return nil, err
	}
	return m.store(parsed), nil
}

func (m *Mappings) latest() *mapping {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last.Value()
}

func (m *Mappings) lookup(key documentsKey) *mapping {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.shared[key].Value()
	if found != nil {
		m.last = m.shared[key]
	}
	return found
}

// store returns the mapping of another remote that has stored the same documents meanwhile. It removes mappings that no
// app uses.
func (m *Mappings) store(parsed *mapping) *mapping {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first := m.shared[parsed.key].Value(); first != nil {
		return first
	}
	if m.shared == nil {
		m.shared = map[documentsKey]weak.Pointer[mapping]{}
	}
	for k, w := range m.shared {
		if w.Value() == nil {
			delete(m.shared, k)
		}
	}
	m.last = weak.Make(parsed)
	m.shared[parsed.key] = m.last
	return parsed
}
