// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/sync/errgroup"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

type document struct {
	body []byte
	tag  string // the ETag that the server sent with the body
	// unchanged: the server has sent no body, because the ETag still holds.
	unchanged bool
}

// documents are the responses to GET /api (the core group) and /apis (all others).
type documents [2]document

type documentsKey [2][sha256.Size]byte

// key takes unchanged ones from known.
func (d documents) key(known *mapping) documentsKey {
	var key documentsKey
	for i, one := range d {
		if one.unchanged {
			key[i] = known.key[i]
		} else {
			key[i] = sha256.Sum256(one.body)
		}
	}
	return key
}

func (d documents) unchanged() bool { return d[0].unchanged && d[1].unchanged }

func (d documents) parse() (*mapping, error) {
	var all apidiscovery.APIGroupDiscoveryList
	found := &mapping{key: d.key(nil)}
	for i, document := range d {
		var groups apidiscovery.APIGroupDiscoveryList
		if err := document.decode(&groups); err != nil {
			return nil, err
		}
		if tag := tagOf(groups); tag == document.tag {
			found.tags[i] = tag
		}
		all.Items = append(all.Items, groups.Items...)
	}
	groups, resources, _ := discovery.SplitGroupsAndResources(all)
	found.RESTMapper = restmapper.NewDiscoveryRESTMapper(groupResources(groups, resources))
	return found, nil
}

// tagOf computes a document's ETag as API servers do, or "": the SHA-512 of its JSON without the type (calculateETag in
// k8s.io/apiserver/pkg/endpoints/discovery/aggregated).
func tagOf(groups apidiscovery.APIGroupDiscoveryList) string {
	groups.TypeMeta = metav1.TypeMeta{}
	text, err := json.Marshal(groups)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%q", fmt.Sprintf("%X", sha512.Sum512(text)))
}

func (d document) decode(into any) error {
	if err := json.Unmarshal(d.body, into); err != nil {
		return fmt.Errorf("discover the API: %w", kubeconfig.ErrNotKubernetes)
	}
	return nil
}

// Limits of each document. A resource takes two to six JSON objects and some hundred bytes; thousands of CRDs a few
// megabytes. In memory even an empty JSON object takes some hundred bytes.
const (
	maxDocument        = 8 << 20 // bytes
	maxDocumentObjects = 100_000
)

var errNotAggregated = kubeconfig.NewNotHealthyError(
	"the API server lists its resources group by group",
	"The API server has no aggregated discovery, which Kubernetes has since version 1.30; upgrade it, or the proxy in front of it.")

var errDocumentTooLarge = kubeconfig.NewNotHealthyError(
	"the discovery documents of the API server are larger than the hub accepts",
	"The API server lists far more resources than the hub accepts; "+
		"check that the server's URL is the URL of an API server, and remove unused CRDs.")

type server struct {
	host   string
	client *http.Client
	most   int64 // bytes of a document
	// known is a mapping whose documents the server may have, or nil.
	known *mapping
}

const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

// documents requests both at once. Those of known come without a body.
func (s server) documents(ctx context.Context) (documents, error) {
	var found documents
	requests, ctx := errgroup.WithContext(ctx)
	for i := range found {
		requests.Go(func() error {
			return panics.Catch(func() error {
				tag := ""
				if s.known != nil {
					tag = s.known.tags[i]
				}
				return s.root(ctx, &found, i, tag)
			})
		})
	}
	err := requests.Wait() // before found is read
	return found, err
}

func (s server) complete(ctx context.Context, found *documents) error {
	for i := range found {
		if found[i].unchanged {
			if err := s.root(ctx, found, i, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s server) root(ctx context.Context, found *documents, i int, tag string) (err error) {
	root := []string{"api", "apis"}[i]
	if found[i], err = s.document(ctx, tag, root); err != nil {
		return fmt.Errorf("discover the API: GET /%s: %w", root, err)
	}
	return nil
}

func (s server) document(ctx context.Context, tag string, parts ...string) (document, error) {
	address, err := url.JoinPath(s.host, parts...)
	if err != nil {
		return document{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return document{}, err
	}
	request.Header.Set("Accept", acceptDiscovery)
	if tag != "" {
		request.Header.Set("If-None-Match", tag)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return document{}, err
	}
	defer response.Body.Close()
	if tag != "" && response.StatusCode == http.StatusNotModified {
		return document{unchanged: true}, nil
	}
	if response.StatusCode != http.StatusOK {
		return document{}, &kubeconfig.StatusError{Code: response.StatusCode}
	}
	if transport.MediaType(response) != runtime.ContentTypeJSON {
		return document{}, kubeconfig.ErrNotKubernetes
	}
	if !strings.Contains(response.Header.Get("Content-Type"), "g=apidiscovery.k8s.io") {
		return document{}, errNotAggregated
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, s.most+1))
	// Braces inside of strings count, too: good enough for a limit.
	if err == nil && (int64(len(body)) > s.most || bytes.Count(body, []byte{'{'}) > maxDocumentObjects) {
		err = errDocumentTooLarge
	}
	return document{body: body, tag: response.Header.Get("ETag")}, err
}

func groupResources(
	groups *metav1.APIGroupList, resources map[schema.GroupVersion]*metav1.APIResourceList,
) []*restmapper.APIGroupResources {
	var all []*restmapper.APIGroupResources
	for _, group := range groups.Groups {
		resourcesOf := &restmapper.APIGroupResources{Group: group, VersionedResources: map[string][]metav1.APIResource{}}
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			if list := resources[gv]; list != nil {
				resourcesOf.VersionedResources[version.Version] = list.APIResources
			}
		}
		all = append(all, resourcesOf)
	}
	return all
}
