// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/boundcache"
)

// CacheFilter says which objects of a kind a module needs from the caches of remotes, and which parts of them. It goes
// into ModuleOptions.CacheFilters, or is returned by the method CacheFilters() []CacheFilter of the module's
// configuration.
//
// A filter applies to the module that declares it, wherever the module reads from the cache of a remote: with Client,
// Cache and Manager of Remote, and in its hub part with WithClient, WithCluster and registry/watch. An object that the
// filter leaves out does not exist there: Get returns NotFound. APIReader of Remote reads all objects.
//
// Filters of two modules for one kind never conflict. Modules without a filter share an informer of all objects, as
// they do without any filters; modules with the same selectors and namespaces, and without Transform, share another
// one; and each other filter has its own. So a filter saves memory if no other module needs all objects of the kind.
// The objects of all informers count towards Limits.
type CacheFilter struct {
	// Object is an empty object of the kind. The filter holds for the kind read as a typed object, as an unstructured
	// one and as metadata.
	Object client.Object
	// Labels and Fields select objects. The API server evaluates them; it accepts few fields. Default: all objects.
	Labels labels.Selector
	Fields fields.Selector
	// Namespaces are the namespaces whose objects are selected. If spec.namespaces of the Cluster limits the cache,
	// too, the namespaces are the intersection. They do not apply to a kind without namespaces. Default: all
	// namespaces.
	Namespaces []string
	// Transform removes from an object the fields that the module does not need, before the object is stored. It must
	// not keep the object, must not block, and is called more than once for some objects. The object has the type
	// that the module reads: a *metav1.PartialObjectMetadata for metadata. A panic fails the module. Default: objects
	// are stored without managedFields, and otherwise whole.
	Transform func(client.Object)
}

// cacheFilters returns the filters of a module with a configuration.
func (e *entry) cacheFilters(layers []json.RawMessage) []boundcache.Filter {
	var all []boundcache.Filter
	for _, f := range slices.Concat(e.options.CacheFilters, e.options.Config.filtersOf(layers)) {
		all = append(all, boundcache.Filter(f))
	}
	return all
}
