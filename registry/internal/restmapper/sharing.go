// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"context"
	"net/http"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
)

// Mappings shares REST mappings between remotes that serve the same discovery documents. The zero value is ready to use.
//
// Its key is a hash of the documents. Servers have a name for their documents, the ETag, which would save the transfer, but
// a remote that lies about its ETag would give its mapping to all others.
type Mappings struct {
	mu     sync.Mutex // protects the fields; never held across a request
	shared map[documentsKey]weak.Pointer[mapping]
}

// mapping is the mapping of one pair of documents. It is freed with the last app that uses it.
type mapping struct {
	meta.RESTMapper
}

// NewMapper returns a mapper for the API server at host, after a first discovery with ctx. Later discoveries run with life,
// the context of the app.
func (m *Mappings) NewMapper(ctx, life context.Context, host string, client *http.Client) (meta.RESTMapper, error) {
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
	if found.legacy() {
		return s.mapLegacy(ctx, found) // the documents do not list resources, so there is no key to share a mapping by
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

// store shares a mapping and returns it. If another remote has stored a mapping of the same documents in the meantime, store
// returns that mapping. It also removes the entries of mappings that no app uses.
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
