// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Filter selects objects of a kind for one module, and transforms them; see registry.CacheFilter.
type Filter struct {
	Object     client.Object
	Labels     labels.Selector
	Fields     fields.Selector
	Namespaces []string
	Transform  func(client.Object)
}

func (f Filter) String() string {
	var parts []string
	if f.Labels != nil && !f.Labels.Empty() {
		parts = append(parts, "labels "+f.Labels.String())
	}
	if f.Fields != nil && !f.Fields.Empty() {
		parts = append(parts, "fields "+f.Fields.String())
	}
	if len(f.Namespaces) > 0 {
		parts = append(parts, "namespaces "+strings.Join(slices.Compact(slices.Sorted(slices.Values(f.Namespaces))), ","))
	}
	if f.Transform != nil {
		parts = append(parts, "transformed")
	}
	return strings.Join(parts, ", ")
}

func (f Filter) check() error {
	switch {
	case f.Object == nil:
		return errors.New("a cache filter has no Object: set an empty object of the kind")
	case f.Labels != nil && !f.Labels.Empty() && f.Labels.String() == "", f.Fields != nil && !f.Fields.Empty() && f.Fields.String() == "":
		return fmt.Errorf("the cache filter of %T selects nothing, which API servers take for all objects: select something", f.Object)
	case slices.Contains(f.Namespaces, ""):
		return fmt.Errorf("the cache filter of %T has a namespace without a name: leave out Namespaces for all of them", f.Object)
	case f.String() == "":
		return fmt.Errorf("the cache filter of %T leaves out nothing: set Labels, Fields, Namespaces or Transform", f.Object)
	}
	return nil
}

// CheckFilters returns an error for invalid filters of a module. The scheme may not know all kinds yet.
func CheckFilters(s *runtime.Scheme, all []Filter) error {
	var problems []error
	seen := map[string]bool{}
	for _, f := range all {
		if err := f.check(); err != nil {
			problems = append(problems, err)
			continue
		}
		what := nameOfKind(f.Object)
		kind := what
		if known, err := apiutil.GVKForObject(f.Object, s); err == nil {
			kind = known.String()
		}
		if seen[kind] {
			problems = append(problems, fmt.Errorf("there are two cache filters of %s: one module has one filter per kind", what))
		}
		seen[kind] = true
	}
	return errors.Join(problems...)
}

func nameOfKind(obj client.Object) string {
	if one, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return one.GroupVersionKind().String()
	}
	return typeOf(obj)
}

// AddFilters makes the filtered caches of a module, before Start. call calls a Transform. Equal filters without one
// share a cache.
func (a *app) AddFilters(module string, filters []Filter, call func(func())) error {
	if err := CheckFilters(a.options.Scheme, filters); err != nil {
		return err
	}
	for _, f := range filters {
		kind, err := apiutil.GVKForObject(f.Object, a.options.Scheme)
		if err != nil {
			return err
		}
		key := kind.String() + ": " + f.String()
		if f.Transform != nil {
			key += " by " + module // a function of its own
		}
		one := a.filtered[key]
		if one == nil {
			if one, err = a.filter(f, call); err != nil {
				return err
			}
			a.filtered[key] = one
		}
		if a.filters[module] == nil {
			a.filters[module] = map[schema.GroupVersionKind]*selection{}
		}
		a.filters[module][kind] = one
	}
	return nil
}

// HasFilters reports whether a module has filters.
func (a *app) HasFilters(module string) bool { return len(a.filters[module]) > 0 }

// in applies the filter within the namespaces of the Cluster.
func (f Filter) in(o ctrlcache.Options, cluster []string, call func(func())) ctrlcache.Options {
	o.DefaultLabelSelector, o.DefaultFieldSelector = f.Labels, f.Fields
	if f.Transform != nil {
		o.DefaultTransform = func(obj any) (any, error) {
			if one, ok := obj.(client.Object); ok {
				call(func() { f.Transform(one) })
			}
			return obj, nil
		}
	}
	if len(f.Namespaces) == 0 {
		return o
	}
	o.DefaultNamespaces = map[string]ctrlcache.Config{}
	for _, namespace := range f.Namespaces {
		if len(cluster) == 0 || slices.Contains(cluster, namespace) {
			o.DefaultNamespaces[namespace] = ctrlcache.Config{}
		}
	}
	if len(o.DefaultNamespaces) == 0 { // An empty map would mean all namespaces.
		none := fields.OneTermEqualSelector("metadata.namespace", f.Namespaces[0])
		o.DefaultNamespaces[cluster[0]] = ctrlcache.Config{FieldSelector: none}
	}
	return o
}
