// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
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

type filters map[string]map[schema.GroupVersionKind]*Cache

// AddFilters makes the filtered caches of a module, before Start. call calls a Transform. Equal filters share a cache.
func (c *Cache) AddFilters(module string, filters []Filter, call func(func())) error {
	if err := CheckFilters(c.options.Scheme, filters); err != nil {
		return err
	}
	for _, f := range filters {
		err := c.filters.add(module, f, c.options.Scheme, func(key string) (one *Cache, err error) {
			if one = c.shared[key]; one != nil && f.Transform == nil {
				return one, nil
			}
			one, err = c.newFiltered(f, call)
			c.shared[key] = one
			return one, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f filters) add(module string, one Filter, s *runtime.Scheme, newCache func(key string) (*Cache, error)) error {
	kind, err := apiutil.GVKForObject(one.Object, s)
	if err != nil {
		return err
	}
	if f[module] == nil {
		f[module] = map[schema.GroupVersionKind]*Cache{}
	}
	f[module][kind], err = newCache(kind.String() + ": " + one.String())
	return err
}

func (f filters) all() iter.Seq[*Cache] {
	return func(yield func(*Cache) bool) {
		seen := map[*Cache]bool{}
		for _, kinds := range f {
			for _, one := range kinds {
				if !seen[one] && !yield(one) {
					return
				}
				seen[one] = true
			}
		}
	}
}

// in applies the filter within the namespaces of the Cluster.
func (f Filter) in(o cache.Options, cluster []string, call func(func())) cache.Options {
	o.DefaultLabelSelector, o.DefaultFieldSelector = f.Labels, f.Fields
	if f.Transform != nil {
		o.DefaultTransform = transformWith(f.Transform, call)
	}
	if len(f.Namespaces) == 0 {
		return o
	}
	o.DefaultNamespaces = map[string]cache.Config{}
	for _, namespace := range f.Namespaces {
		if len(cluster) == 0 || slices.Contains(cluster, namespace) {
			o.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	if len(o.DefaultNamespaces) == 0 { // An empty map would mean all namespaces.
		none := fields.OneTermEqualSelector("metadata.namespace", f.Namespaces[0])
		o.DefaultNamespaces[cluster[0]] = cache.Config{FieldSelector: none}
	}
	return o
}

func transformWith(transform func(client.Object), call func(func())) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if one, ok := obj.(client.Object); ok {
			call(func() { transform(one) })
		}
		return obj, nil
	}
}

func kindIn(s *runtime.Scheme, obj runtime.Object) (schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(obj, s)
	if _, isList := obj.(client.ObjectList); isList {
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	}
	return kind, err
}

// HasFilters reports whether a module has filters.
func (c *Cache) HasFilters(module string) bool { return len(c.filters[module]) > 0 }

// For returns the cache from which a module reads: c, unless it has a filter for the kind.
func (c *Cache) For(module string, obj runtime.Object) *Cache {
	if !c.HasFilters(module) {
		return c
	}
	kind, err := kindIn(c.options.Scheme, obj)
	if err != nil {
		return c // a read from c returns the same error
	}
	return c.ForKind(module, kind)
}

// ForKind is For with a kind.
func (c *Cache) ForKind(module string, kind schema.GroupVersionKind) *Cache {
	if one := c.filters[module][kind]; one != nil {
		return one
	}
	return c
}

// ReaderFor returns a reader of what a module sees. It keeps only the module's name, since it may outlive a hub part.
func (c *Cache) ReaderFor(module string) client.Reader { return filteredReader{c, module} }

type filteredReader struct {
	all    *Cache
	module string
}

func (r filteredReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return r.all.For(r.module, obj).Get(ctx, key, obj, opts...)
}

func (r filteredReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.all.For(r.module, list).List(ctx, list, opts...)
}
