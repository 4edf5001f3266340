// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"context"
	"net/http"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
)

// Mappings shares REST mappings between remotes that serve the same discovery documents. A
// private mapper is more than a third of the heap of an idle app; fleets mostly consist of a few
// kinds of clusters.
//
// A document is known by our own hash of its bytes. Servers name theirs by an ETag, which would
// save the transfer, but a remote that lies about it would give its mapping to all others.
type Mappings struct {
	mu     sync.Mutex // protects the fields; never held across a request
	shared map[documentsKey]weak.Pointer[mapping]
}

// mapping is one parsed pair of documents. It is dropped when the last app that uses it ends.
type mapping struct {
	meta.RESTMapper
}

// NewMapper returns a mapper for the API server at host, after a first discovery with ctx. Later discoveries run with life,
// the context of the app.
func (m *Mappings) NewMapper(ctx, life context.Context, host string, client *http.Client) (*Mapper, error) {
	first, err := m.discover(ctx, host, client)
	if err != nil {
		return nil, err
	}
	return newMapper(first, func() (*mapping, error) { return m.discover(life, host, client) }), nil
}

// discover returns the mapping for the documents that the API server serves now.
func (m *Mappings) discover(ctx context.Context, host string, client *http.Client) (*mapping, error) {
	s := server{host: host, client: client, left: newAllowance()}
	found, err := s.documents(ctx)
	if err != nil {
		return nil, err
	}
	if found.plain() {
		return s.parsePlain(ctx, found) // the documents say nothing of resources, so that nothing can be shared
	}
	key := found.key()
	if known := m.lookup(key); known != nil {
		return known, nil
	}
	parsed, err := found.parse()
	if err != nil {
		return nil, err
	}
	return m.store(key, parsed), nil
}

func (m *Mappings) lookup(key documentsKey) *mapping {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shared[key].Value()
}

// store keeps the mapping for others, unless one of them was quicker, and forgets those that
// nobody uses.
func (m *Mappings) store(key documentsKey, parsed *mapping) *mapping {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first := m.shared[key].Value(); first != nil {
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
	m.shared[key] = weak.Make(parsed)
	return parsed
}
