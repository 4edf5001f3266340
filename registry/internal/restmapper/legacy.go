// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
)

// Limits of the discovery of an API server without aggregated discovery: how many requests run at the same time, and how long
// all of them together may take.
const (
	legacyRequests = 8
	legacyTimeout  = time.Minute
)

// mapLegacy discovers the resources of a server without aggregated discovery group by group. It leaves out a group whose
// request fails, as client-go does.
func (s server) mapLegacy(ctx context.Context, found documents) (*mapping, error) {
	groups, err := found.groups()
	if err != nil {
		return nil, err
	}
	var (
		mu        sync.Mutex // protects resources and failed
		resources = map[schema.GroupVersion]*metav1.APIResourceList{}
		failed    error
		requests  errgroup.Group
	)
	requests.SetLimit(legacyRequests)
	ctx, cancel := context.WithTimeout(ctx, legacyTimeout)
	defer cancel()
	for _, gv := range groupVersions(groups) {
		requests.Go(func() error {
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
	_ = requests.Wait() // failed has the error
	if errors.Is(failed, errDocumentTooLarge) || len(resources) == 0 && failed != nil {
		return nil, failed
	}
	return &mapping{RESTMapper: restmapper.NewDiscoveryRESTMapper(groupResources(groups, resources))}, nil
}

// groups returns the groups of the documents, of which at least one is not aggregated. From an aggregated document it takes
// the names of the groups only: if a server has one document of each form, all of its resources are requested.
func (d documents) groups() (*metav1.APIGroupList, error) {
	all := &metav1.APIGroupList{}
	for i, document := range d {
		switch {
		case !document.legacy:
			var groups apidiscovery.APIGroupDiscoveryList
			if err := document.decode(&groups); err != nil {
				return nil, err
			}
			list, _, _ := discovery.SplitGroupsAndResources(groups)
			all.Groups = append(all.Groups, list.Groups...)
		case i == 0:
			var core metav1.APIVersions
			if err := document.decode(&core); err != nil {
				return nil, err
			}
			all.Groups = append(all.Groups, coreGroup(core.Versions))
		default:
			var list metav1.APIGroupList
			if err := document.decode(&list); err != nil {
				return nil, err
			}
			all.Groups = append(all.Groups, list.Groups...)
		}
	}
	if n := len(groupVersions(all)); n > maxGroupVersions {
		return nil, fmt.Errorf("%w: %d versions of groups, each of which takes a request", errDocumentTooLarge, n)
	}
	return all, nil
}

// coreGroup returns the core group, which has a document of its own, in the form of the other groups.
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

// groupVersions returns the versions of all groups, without those whose names would lead to another path.
func groupVersions(groups *metav1.APIGroupList) []schema.GroupVersion {
	var all []schema.GroupVersion
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			if len(content.IsPathSegmentName(group.Name)) > 0 || len(content.IsPathSegmentName(version.Version)) > 0 {
				continue
			}
			all = append(all, schema.GroupVersion{Group: group.Name, Version: version.Version})
		}
	}
	return all
}

// resources requests the resources of one version of a group.
func (s server) resources(ctx context.Context, gv schema.GroupVersion) (*metav1.APIResourceList, error) {
	parts := []string{"apis", gv.Group, gv.Version}
	if gv.Group == "" {
		parts = []string{"api", gv.Version}
	}
	found, err := s.document(ctx, "", parts...)
	if err != nil {
		return nil, fmt.Errorf("discover the API: GET /%s: %w", strings.Join(parts, "/"), err)
	}
	list := &metav1.APIResourceList{}
	return list, found.decode(list)
}
