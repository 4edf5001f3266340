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

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// document is what an API server says it serves, as it came.
type document struct {
	body  []byte
	plain bool // the server has no aggregated discovery (before Kubernetes 1.27)
}

// documents are what /api says of the core group, and /apis of all others.
type documents [2]document

// documentsKey is a hash of each.
type documentsKey [2][sha256.Size]byte

func (d documents) key() documentsKey {
	return documentsKey{sha256.Sum256(d[0].body), sha256.Sum256(d[1].body)}
}

func (d documents) plain() bool { return d[0].plain || d[1].plain }

func (d documents) parse() (*mapping, error) {
	var all apidiscovery.APIGroupDiscoveryList
	for _, one := range d {
		var groups apidiscovery.APIGroupDiscoveryList
		if err := json.Unmarshal(one.body, &groups); err != nil {
			return nil, fmt.Errorf("discover the API: %w", kubeconfig.ErrNotKubernetes)
		}
		all.Items = append(all.Items, groups.Items...)
	}
	groups, resources, _ := discovery.SplitGroupsAndResources(all)
	return &mapping{restmapper.NewDiscoveryRESTMapper(groupResources(groups, resources))}, nil
}

// server is an API server to ask for its documents.
type server struct {
	config *rest.Config
	client *http.Client
}

const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

// documents asks for both documents.
func (s server) documents(ctx context.Context) (documents, error) {
	var found documents
	for i, path := range []string{"api", "apis"} {
		var err error
		if found[i], err = s.document(ctx, path); err != nil {
			return documents{}, fmt.Errorf("discover the API: GET /%s: %w", path, err)
		}
	}
	return found, nil
}

func (s server) document(ctx context.Context, path string) (document, error) {
	where, err := url.JoinPath(s.config.Host, path)
	if err != nil {
		return document{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return document{}, err
	}
	request.Header.Set("Accept", acceptDiscovery)
	response, err := s.client.Do(request)
	if err != nil {
		return document{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return document{}, &kubeconfig.StatusError{Code: response.StatusCode}
	}
	body, err := io.ReadAll(response.Body)
	return document{
		body:  body,
		plain: !strings.Contains(response.Header.Get("Content-Type"), "g=apidiscovery.k8s.io"),
	}, err
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
func (s server) parsePlain() (*mapping, error) {
	dc, err := discovery.NewDiscoveryClientForConfigAndClient(s.config, s.client)
	if err != nil {
		return nil, fmt.Errorf("discover the API: %w", err)
	}
	all, err := restmapper.GetAPIGroupResources(dc)
	if err != nil && len(all) == 0 {
		return nil, fmt.Errorf("discover the API: %w", err)
	}
	return &mapping{restmapper.NewDiscoveryRESTMapper(all)}, nil
}
