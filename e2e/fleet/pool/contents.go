// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

type contents map[objectKey]object

type objectKey struct {
	schema.GroupVersionResource
	namespace, name string
}

func (k objectKey) String() string {
	return strings.TrimPrefix(k.namespace+"/"+k.name, "/") + " of " + k.GroupResource().String()
}

// object shows whether the object has been changed.
type object struct {
	uid        string
	text       string // labels, annotations, finalizers, generation and managers
	finalizers bool
	own        bool // written by the API server itself
}

const apiServer = "kube-apiserver"

func newObject(o *metav1.PartialObjectMetadata) object {
	var managers []string
	own := len(o.ManagedFields) > 0
	for _, f := range o.ManagedFields {
		managers = append(managers, f.Manager)
		own = own && f.Manager == apiServer
	}
	slices.Sort(managers)
	return object{
		uid: string(o.UID), finalizers: len(o.Finalizers) > 0, own: own,
		text: fmt.Sprint(o.Labels, o.Annotations, o.Finalizers, o.Generation, slices.Compact(managers)),
	}
}

const parallel = 8

func (s *server) contents(ctx context.Context, resources []schema.GroupVersionResource) (contents, error) {
	found := contents{}
	var mu sync.Mutex // protects found
	listing, ctx := errgroup.WithContext(ctx)
	listing.SetLimit(parallel)
	for _, resource := range resources {
		listing.Go(func() error {
			list, err := s.objects.Resource(resource).List(ctx, metav1.ListOptions{})
			switch {
			case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
				return nil // Its CRD is being deleted.
			case err != nil:
				return fmt.Errorf("list %s: %w", resource.Resource, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range list.Items {
				one := &list.Items[i]
				found[objectKey{resource, one.Namespace, one.Name}] = newObject(one)
			}
			return nil
		})
	}
	return found, listing.Wait()
}

// Both API groups of events contain the same events.
func (s *server) resources() ([]schema.GroupVersionResource, error) {
	lists, err := s.discovery.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("discover the kinds of objects: %w", err)
	}
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists)
	all, err := discovery.GroupVersionResources(lists)
	var found []schema.GroupVersionResource
	for resource := range all {
		if resource.Group != "events.k8s.io" {
			found = append(found, resource)
		}
	}
	return found, err
}

// added leaves out what the server writes itself.
func (c contents) added(before contents) contents {
	found := contents{}
	for key, o := range c {
		if was, known := before[key]; !o.own && (!known || was.uid != o.uid) {
			found[key] = o
		}
	}
	return found
}

func (c contents) String() string {
	const enough = 5
	var names []string
	for key := range c {
		names = append(names, key.String())
	}
	slices.Sort(names)
	if len(names) > enough {
		names = append(names[:enough], fmt.Sprintf("%d others", len(names)-enough))
	}
	return strings.Join(names, ", ")
}

// damage: an object of before has been deleted or changed.
func (c contents) damage(before contents) error {
	for key, was := range before {
		if key.Resource == "leases" && was.own || key.Resource == "events" {
			continue // They come and go.
		}
		switch o, there := c[key]; {
		case !there || o.uid != was.uid:
			return fmt.Errorf("the test has deleted %s", key)
		case o.text != was.text:
			return fmt.Errorf("the test has changed %s", key)
		}
	}
	return nil
}
