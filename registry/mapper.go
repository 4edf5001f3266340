// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"weak"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// mappings shares REST mappings between remotes that serve the same discovery document. A
// private mapper is more than a third of the heap of an idle app; fleets mostly consist of a
// few kinds of clusters.
//
// The API server names each version of its document by an ETag that is a hash of the content,
// so that a second remote of the same kind costs two small requests and no parsing.
type mappings struct {
	mu     sync.Mutex // protects the fields; never held across a request
	shared map[string]weak.Pointer[mapping]
	etags  [2]string // of the last document seen: /api and /apis
}

// mapping is one parsed document. It is dropped when the last app that uses it ends.
type mapping struct {
	meta.RESTMapper
}

const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

// discover returns the mapping for the document that the API server serves now.
func (m *mappings) discover(ctx context.Context, config *rest.Config, client *http.Client) (*mapping, error) {
	m.mu.Lock()
	guess := m.etags
	m.mu.Unlock()

	var documents [2]document
	for i, path := range []string{"api", "apis"} {
		var err error
		if documents[i], err = fetchDocument(ctx, config, client, path, guess[i]); err != nil {
			return nil, err
		}
	}
	key := documents[0].etag + "\n" + documents[1].etag
	if known := m.lookup(key); known != nil {
		return known, nil
	}
	for i, path := range []string{"api", "apis"} {
		if documents[i].body == nil { // not modified, yet no mapping of the pair is left
			var err error
			if documents[i], err = fetchDocument(ctx, config, client, path, ""); err != nil {
				return nil, err
			}
		}
	}
	parsed, err := parse(documents, config, client)
	if err != nil {
		return nil, err
	}
	return m.store(parsed, documents), nil
}

func (m *mappings) lookup(key string) *mapping {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shared[key].Value()
}

// store keeps the mapping for others, unless one of them was quicker, and forgets those that
// nobody uses.
func (m *mappings) store(parsed *mapping, documents [2]document) *mapping {
	key := documents[0].etag + "\n" + documents[1].etag
	m.mu.Lock()
	defer m.mu.Unlock()
	if first := m.shared[key].Value(); first != nil {
		return first
	}
	if m.shared == nil {
		m.shared = map[string]weak.Pointer[mapping]{}
	}
	for k, w := range m.shared {
		if w.Value() == nil {
			delete(m.shared, k)
		}
	}
	m.shared[key] = weak.Make(parsed)
	m.etags = [2]string{documents[0].etag, documents[1].etag}
	return parsed
}

// document is what /api or /apis says. body is nil when the server said that the document is the
// one of the ETag that it was asked about.
type document struct {
	etag  string
	body  []byte
	plain bool // the server has no aggregated discovery (before Kubernetes 1.27)
}

func fetchDocument(ctx context.Context, config *rest.Config, client *http.Client, path, etag string) (document, error) {
	where, err := url.JoinPath(config.Host, path)
	if err != nil {
		return document{}, fmt.Errorf("discover the API: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return document{}, fmt.Errorf("discover the API: %w", err)
	}
	request.Header.Set("Accept", acceptDiscovery)
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	response, err := client.Do(request)
	if err != nil {
		return document{}, fmt.Errorf("discover the API: %w", err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotModified:
		return document{etag: etag}, nil
	case response.StatusCode != http.StatusOK:
		return document{}, fmt.Errorf("discover the API: %w", &kubeconfig.StatusError{Code: response.StatusCode})
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return document{}, fmt.Errorf("discover the API: %w", err)
	}
	d := document{etag: response.Header.Get("ETag"), body: body}
	if d.etag == "" {
		d.etag = fmt.Sprintf("%x", sha256.Sum256(body))
	}
	d.plain = !strings.Contains(response.Header.Get("Content-Type"), "g=apidiscovery.k8s.io")
	return d, nil
}

func parse(documents [2]document, config *rest.Config, client *http.Client) (*mapping, error) {
	if documents[0].plain || documents[1].plain {
		return parsePlain(config, client)
	}
	var all apidiscovery.APIGroupDiscoveryList
	for _, d := range documents {
		var groups apidiscovery.APIGroupDiscoveryList
		if err := json.Unmarshal(d.body, &groups); err != nil {
			return nil, fmt.Errorf("discover the API: %w", kubeconfig.ErrNotKubernetes)
		}
		all.Items = append(all.Items, groups.Items...)
	}
	groups, resources, _ := discovery.SplitGroupsAndResources(all)
	return &mapping{restmapper.NewDiscoveryRESTMapper(groupResources(groups, resources))}, nil
}

func groupResources(
	groups *metav1.APIGroupList, resources map[schema.GroupVersion]*metav1.APIResourceList,
) []*restmapper.APIGroupResources {
	var all []*restmapper.APIGroupResources
	for _, group := range groups.Groups {
		one := &restmapper.APIGroupResources{Group: group, VersionedResources: map[string][]metav1.APIResource{}}
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			if list := resources[gv]; list != nil {
				one.VersionedResources[version.Version] = list.APIResources
			}
		}
		all = append(all, one)
	}
	return all
}

// parsePlain asks a server without aggregated discovery group by group. A group that does not
// answer is left out, as client-go does it.
func parsePlain(config *rest.Config, client *http.Client) (*mapping, error) {
	dc, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("discover the API: %w", err)
	}
	all, err := restmapper.GetAPIGroupResources(dc)
	if err != nil && len(all) == 0 {
		return nil, fmt.Errorf("discover the API: %w", err)
	}
	return &mapping{restmapper.NewDiscoveryRESTMapper(all)}, nil
}
