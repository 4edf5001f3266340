// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"

	"github.com/clusterfx/clusterfx/registry/internal/transport"
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
		if err := one.decode(&groups); err != nil {
			return nil, err
		}
		all.Items = append(all.Items, groups.Items...)
	}
	groups, resources, _ := discovery.SplitGroupsAndResources(all)
	return &mapping{restmapper.NewDiscoveryRESTMapper(groupResources(groups, resources))}, nil
}

// decode decodes a document into what it should be.
func (d document) decode(into any) error {
	if err := json.Unmarshal(d.body, into); err != nil {
		return fmt.Errorf("discover the API: %w", kubeconfig.ErrNotKubernetes)
	}
	return nil
}

// Bounds of what a server may say it serves. A resource takes two to six objects and some hundred
// bytes; a cluster with thousands of CRDs has documents of a few megabytes. In memory, an object takes
// some hundred bytes even if it is empty.
const (
	maxDocument        = 16 << 20 // bytes; of plain documents, all together
	maxDocumentObjects = 200_000
	maxGroupVersions   = 2000 // that are asked for one by one
)

var errDocumentTooLarge = kubeconfig.NewNotHealthyError(
	"the API server says that it serves more than the hub can believe",
	"The API server says that it serves far more resources than the hub accepts; "+
		"check that the server's URL is that of an API server, and remove CRDs that nobody needs.")

// allowance is what is left for the documents of a server.
type allowance struct {
	mu             sync.Mutex // protects the fields; held for a few instructions
	bytes, objects int
}

func newAllowance() *allowance { return &allowance{bytes: maxDocument, objects: maxDocumentObjects} }

// spend takes a document off what is left. Braces inside of strings count as objects, too: it is good
// enough.
func (a *allowance) spend(body []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes -= len(body)
	a.objects -= bytes.Count(body, []byte{'{'})
	if a.bytes < 0 || a.objects < 0 {
		return errDocumentTooLarge
	}
	return nil
}

// server is an API server to ask for its documents.
type server struct {
	host   string
	client *http.Client
	left   *allowance
}

const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

// documents asks for both documents.
func (s server) documents(ctx context.Context) (documents, error) {
	var found documents
	for i, root := range []string{"api", "apis"} {
		var err error
		if found[i], err = s.document(ctx, root); err != nil {
			return documents{}, fmt.Errorf("discover the API: GET /%s: %w", root, err)
		}
	}
	return found, nil
}

func (s server) document(ctx context.Context, parts ...string) (document, error) {
	where, err := url.JoinPath(s.host, parts...)
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
	if transport.MediaType(response) != runtime.ContentTypeJSON {
		return document{}, kubeconfig.ErrNotKubernetes
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	if err != nil {
		return document{}, err
	}
	return document{
		body:  body,
		plain: !strings.Contains(response.Header.Get("Content-Type"), "g=apidiscovery.k8s.io"),
	}, s.left.spend(body)
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

// A server without aggregated discovery is asked for so many groups at the same time, and for all of
// them together no longer than that.
const (
	askedAtOnce  = 8
	plainTimeout = time.Minute
)

// parsePlain asks a server without aggregated discovery group by group. A group that does not
// answer is left out, as client-go does it.
func (s server) parsePlain(ctx context.Context, found documents) (*mapping, error) {
	groups, err := found.groups()
	if err != nil {
		return nil, err
	}
	var (
		mu        sync.Mutex // protects resources and failed
		resources = map[schema.GroupVersion]*metav1.APIResourceList{}
		failed    error
		asking    errgroup.Group
	)
	asking.SetLimit(askedAtOnce)
	ctx, cancel := context.WithTimeout(ctx, plainTimeout)
	defer cancel()
	for _, gv := range groupVersions(groups) {
		asking.Go(func() error {
			list, err := s.resources(ctx, gv)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				resources[gv] = list
			} else if failed == nil || errors.Is(err, errDocumentTooLarge) {
				failed = err
			}
			return nil
		})
	}
	_ = asking.Wait() // failed has what went wrong
	if errors.Is(failed, errDocumentTooLarge) || len(resources) == 0 && failed != nil {
		return nil, failed
	}
	return &mapping{restmapper.NewDiscoveryRESTMapper(groupResources(groups, resources))}, nil
}

// groups returns the groups of plain documents. Those of an aggregated one are known by their names
// alone: a server that has one of each is asked for all of its resources.
func (d documents) groups() (*metav1.APIGroupList, error) {
	all := &metav1.APIGroupList{}
	for i, one := range d {
		switch {
		case !one.plain:
			var groups apidiscovery.APIGroupDiscoveryList
			if err := one.decode(&groups); err != nil {
				return nil, err
			}
			list, _, _ := discovery.SplitGroupsAndResources(groups)
			all.Groups = append(all.Groups, list.Groups...)
		case i == 0:
			var core metav1.APIVersions
			if err := one.decode(&core); err != nil {
				return nil, err
			}
			all.Groups = append(all.Groups, coreGroup(core.Versions))
		default:
			var list metav1.APIGroupList
			if err := one.decode(&list); err != nil {
				return nil, err
			}
			all.Groups = append(all.Groups, list.Groups...)
		}
	}
	if n := len(groupVersions(all)); n > maxGroupVersions {
		return nil, fmt.Errorf("%w: %d versions of groups, each to be asked for", errDocumentTooLarge, n)
	}
	return all, nil
}

// coreGroup is the core group as a group among others.
func coreGroup(versions []string) metav1.APIGroup {
	var core metav1.APIGroup
	for _, v := range versions {
		core.Versions = append(core.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v, Version: v})
	}
	if len(core.Versions) > 0 {
		core.PreferredVersion = core.Versions[0]
	}
	return core
}

// groupVersions returns the versions of all groups that can be asked for.
func groupVersions(groups *metav1.APIGroupList) []schema.GroupVersion {
	var all []schema.GroupVersion
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			if len(content.IsPathSegmentName(group.Name)) > 0 || len(content.IsPathSegmentName(version.Version)) > 0 {
				continue // they would lead to another path
			}
			all = append(all, schema.GroupVersion{Group: group.Name, Version: version.Version})
		}
	}
	return all
}

// resources asks for those of one version of a group.
func (s server) resources(ctx context.Context, gv schema.GroupVersion) (*metav1.APIResourceList, error) {
	parts := []string{"apis", gv.Group, gv.Version}
	if gv.Group == "" {
		parts = []string{"api", gv.Version}
	}
	found, err := s.document(ctx, parts...)
	if err != nil {
		return nil, fmt.Errorf("discover the API: GET /%s: %w", strings.Join(parts, "/"), err)
	}
	list := &metav1.APIResourceList{}
	return list, found.decode(list)
}
