// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
)

// mappings shares REST mappings between remotes that serve the same discovery document. A
// private mapper is more than a third of the heap of an idle app; fleets mostly consist of a
// few kinds of clusters.
//
// The API server names each version of its document by an ETag that is a hash of the content,
// so that a second remote of the same kind costs two small requests and no parsing.
type mappings struct {
	mu     sync.Mutex // protects the fields; never held across a request
	shared map[etags]weak.Pointer[mapping]
	latest etags // of the last document that was parsed
}

// mapping is one parsed document. It is dropped when the last app that uses it ends.
type mapping struct {
	meta.RESTMapper
}

// discover returns the mapping for the document that the API server serves now.
func (m *mappings) discover(ctx context.Context, config *rest.Config, client *http.Client) (*mapping, error) {
	m.mu.Lock()
	guess := m.latest
	m.mu.Unlock()
	s := server{config: config, client: client}
	found, err := s.documents(ctx, guess)
	if err != nil {
		return nil, err
	}
	if known := m.lookup(found); known != nil {
		return known, nil
	}
	if found[0].body == nil || found[1].body == nil { // not modified, but its mapping is gone
		if found, err = s.documents(ctx, etags{}); err != nil {
			return nil, err
		}
	}
	parsed, err := s.parse(found)
	if err != nil {
		return nil, err
	}
	return m.store(parsed, found), nil
}

func (m *mappings) lookup(d documents) *mapping {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shared[d.etags()].Value()
}

// store keeps the mapping for others, unless one of them was quicker, and forgets those that
// nobody uses.
func (m *mappings) store(parsed *mapping, d documents) *mapping {
	key := d.etags()
	m.mu.Lock()
	defer m.mu.Unlock()
	if first := m.shared[key].Value(); first != nil {
		return first
	}
	if m.shared == nil {
		m.shared = map[etags]weak.Pointer[mapping]{}
	}
	for k, w := range m.shared {
		if w.Value() == nil {
			delete(m.shared, k)
		}
	}
	m.shared[key] = weak.Make(parsed)
	m.latest = key
	return parsed
}
