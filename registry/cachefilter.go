// SPDX-License-Identifier: Apache-2.0

package registry

import (
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

// CacheFilter says which objects of a kind a module needs from the caches of remotes, and which parts of them. It goes
// into ModuleOptions.CacheFilters, or is returned by the method CacheFilters() []CacheFilter of the module's
// configuration.
//
// A filter applies to the module that declares it, wherever the module reads from the cache of a remote: with Client,
// Cache and Manager of Remote, and in its hub part with WithClient, WithCluster and registry/watch. An object that the
// filter leaves out does not exist there: Get returns NotFound. Reader of Remote reads all objects.
//
// Filters of two modules for one kind never conflict. Modules without a filter share an informer of all objects, as
// they do without any filters; modules with the same selectors and namespaces, and without Transform, share another
// one; and each other filter has its own. So a filter saves memory if no other module needs all objects of the kind.
// What all informers hold counts towards Limits.
type CacheFilter struct {
	// Object is an empty object of the kind. The filter holds for the kind read as a typed object, as an unstructured
	// one and as metadata.
	Object client.Object
	// Labels and Fields select objects. The API server evaluates them; it accepts few fields. Default: all objects.
	Labels labels.Selector
	Fields fields.Selector
	// Namespaces are those whose objects are selected. Where spec.namespaces of the Cluster limits the cache, too, the
	// namespaces are those in both. They say nothing of a kind without namespaces. Default: all namespaces.
	Namespaces []string
	// Transform removes from an object what the module does not need, before the object is stored. It must not keep
	// the object, must not block, and is called more than once for some objects. The object has the type that the module
	// reads: a *metav1.PartialObjectMetadata for metadata. A panic fails the module. Default: objects are stored
	// without managedFields, and otherwise whole.
	Transform func(client.Object)
}

// String names what the filter selects.
func (f CacheFilter) String() string {
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

// check reports what is wrong with the filter itself.
func (f CacheFilter) check() error {
	switch {
	case f.Object == nil:
		return errors.New("a cache filter has no Object: set an empty object of the kind")
	case f.Labels != nil && !f.Labels.Empty() && f.Labels.String() == "", f.Fields != nil && !f.Fields.Empty() && f.Fields.String() == "":
		return fmt.Errorf("the cache filter of %T selects nothing, which API servers take for all objects: name what it selects", f.Object)
	case slices.Contains(f.Namespaces, ""):
		return fmt.Errorf("the cache filter of %T has a namespace without a name: leave out Namespaces for all of them", f.Object)
	case f.String() == "":
		return fmt.Errorf("the cache filter of %T leaves out nothing: set Labels, Fields, Namespaces or Transform", f.Object)
	}
	return nil
}

// checkFilters reports what is wrong with the filters of one module. The scheme may not know all kinds yet.
func checkFilters(s *runtime.Scheme, all []CacheFilter) error {
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

// filtersFor returns the filters of a module in an app. A module that does not run there has those of its hub part.
func (e *epoch) filtersFor(m *entry) []CacheFilter {
	var overrides []int
	if i := slices.IndexFunc(e.chosen, func(c choice) bool { return c.name == m.name }); i >= 0 {
		overrides = e.chosen[i].overrides
	}
	return slices.Concat(m.options.CacheFilters, m.options.Config.filtersOf(m.layers(overrides)))
}

// filters are the filtered caches of an app by the module that reads from them, and by kind.
type filters map[string]map[schema.GroupVersionKind]*appCache

// newFilters makes the filtered caches of the app. newCache makes a cache for a filter, with the module whose Transform
// is called.
func (e *epoch) newFilters(newCache func(CacheFilter, *guard) (*appCache, error)) (filters, error) {
	all := filters{}
	if e.name == "" {
		return all, nil // the cache of a hub part, which holds objects of the hub
	}
	alike := map[string]*appCache{}
	for i := range e.modules {
		m := &e.modules[i]
		wanted := e.filtersFor(m)
		err := checkFilters(e.scheme, wanted)
		for _, f := range wanted {
			if err == nil {
				err = all.add(m.name, f, e.scheme, func(key string) (*appCache, error) {
					if one := alike[key]; one != nil && f.Transform == nil {
						return one, nil
					}
					by := &guard{module: m.name, life: &e.lifetime, log: e.log.WithValues("module", m.name)}
					one, err := newCache(f, by)
					alike[key] = one
					return one, err
				})
			}
		}
		if err != nil {
			return nil, &moduleError{module: m.name, reason: ReasonBuildFailed, err: fmt.Errorf("cache filters: %w", err)}
		}
	}
	return all, nil
}

// add adds a filter of a module. newCache returns a cache for what key names.
func (f filters) add(module string, one CacheFilter, s *runtime.Scheme, newCache func(key string) (*appCache, error)) error {
	kind, err := apiutil.GVKForObject(one.Object, s)
	if err != nil {
		return err
	}
	if f[module] == nil {
		f[module] = map[schema.GroupVersionKind]*appCache{}
	}
	if f[module][kind] != nil {
		return fmt.Errorf("there are two cache filters of %s: one module has one filter per kind", kind)
	}
	f[module][kind], err = newCache(kind.String() + ": " + one.String())
	return err
}

// all yields each cache once.
func (f filters) all() iter.Seq[*appCache] {
	return func(yield func(*appCache) bool) {
		seen := map[*appCache]bool{}
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

// in returns o with the filter, within the namespaces that the Cluster has.
func (f CacheFilter) in(o cache.Options, cluster []string, by *guard) cache.Options {
	o.DefaultLabelSelector, o.DefaultFieldSelector = f.Labels, f.Fields
	if f.Transform != nil {
		o.DefaultTransform = containTransform(f.Transform, by)
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
	if len(o.DefaultNamespaces) == 0 { // No namespace at all would be taken for all of them.
		none := fields.OneTermEqualSelector("metadata.namespace", f.Namespaces[0])
		o.DefaultNamespaces[cluster[0]] = cache.Config{FieldSelector: none}
	}
	return o
}

// containTransform returns a transform whose panics fail the module. The object is then stored as it is.
func containTransform(transform func(client.Object), by *guard) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if one, ok := obj.(client.Object); ok && !by.broken() {
			by.call("transform of a cache filter", func() { transform(one) })
		}
		return obj, nil
	}
}

// kindIn returns the kind of an object or of the objects of a list.
func kindIn(s *runtime.Scheme, obj runtime.Object) (schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(obj, s)
	if _, isList := obj.(client.ObjectList); isList {
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	}
	return kind, err
}

// of returns the cache from which a module reads objects, which is c unless the module has a filter.
func (c *appCache) of(module string, obj runtime.Object) *appCache {
	filtered := c.filters[module]
	if len(filtered) == 0 {
		return c
	}
	kind, err := kindIn(c.hub.life.scheme, obj)
	if err != nil {
		return c // which returns the same error
	}
	return c.ofKind(module, kind)
}

// ofKind is of for a kind.
func (c *appCache) ofKind(module string, kind schema.GroupVersionKind) *appCache {
	if one := c.filters[module][kind]; one != nil {
		return one
	}
	return c
}
