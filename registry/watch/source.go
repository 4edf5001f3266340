// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"reflect"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Options select the objects and remotes that a source watches, and map objects to requests. The zero value watches all
// objects of the kind in all remotes and makes a request for each.
type Options[object client.Object] struct {
	// Select picks remotes. It is called again when a remote changes. Nil means all. See state.MatchLabels.
	Select func(state.Status) bool
	// Predicates drop events of objects; all must agree to an event.
	Predicates []predicate.TypedPredicate[object]
	// Map returns the requests that an object makes. Nil means one request for the object itself. Map must return at
	// once, and must not change the object.
	Map func(ctx context.Context, cluster state.ClusterName, obj object) []Request
	// Indexes are added to the cache of each remote before the first of its objects makes a request.
	Indexes []Index
	// TellLost adds a request with Lost set when a remote has left the hub or is no longer selected. A remote that is
	// only unreachable is not lost. Neither is a remote that another replica of the hub runs, see Registry.IsElsewhere: if it
	// leaves the hub, the sources of that replica tell it. A hub that was not running when a remote left does not learn of
	// it; clean up for such remotes by comparing with the Clusters, or with Registry.List if the hub is alone.
	TellLost bool
}

// Index makes objects of the kind findable by a field with client.MatchingFields.
type Index struct {
	Field   string
	Extract client.IndexerFunc
}

// Remotes returns a source of requests for objects of a kind in the hub's remotes. obj names the kind: an empty object,
// typed or unstructured, or a metav1.PartialObjectMetadata with its kind set, for which only the metadata is fetched.
//
// The cache of each remote's app watches the remote while it is Ready, in a goroutine per remote: no remote can keep
// the controller from starting, delay another remote, or end the hub. A remote that does not serve the kind is retried
// until it does. When a remote is back, all of its objects make requests again, including the objects that were deleted
// meanwhile.
func Remotes[object client.Object](r *registry.Registry, obj object, o Options[object]) source.TypedSource[Request] {
	return source.TypedFunc[Request](func(
		ctx context.Context, queue workqueue.TypedRateLimitingInterface[Request],
	) error {
		s := &remotes[object]{
			registry: r, kind: obj, options: o, queue: queue,
			log:     logf.FromContext(ctx).WithName("watch").WithValues("kind", nameOfKind(obj)),
			engaged: map[state.ClusterName]*engagement[object]{},
		}
		r.Follow(ctx, func(e registry.Event) { s.take(ctx, e) })
		return nil
	})
}

// remotes is a source that was started. All that it starts ends with the controller's context.
type remotes[object client.Object] struct {
	registry *registry.Registry
	kind     object
	options  Options[object]
	queue    workqueue.TypedRateLimitingInterface[Request]
	log      logr.Logger
	engaged  map[state.ClusterName]*engagement[object] // take's alone
}

// take compares a remote with its engagement. It is called in one goroutine, one event at a time.
func (s *remotes[object]) take(ctx context.Context, e registry.Event) {
	if ctx.Err() != nil {
		return // the hub ends, which stops all remotes; none of them is lost
	}
	info, known := s.registry.Status(e.Name)
	wanted := known && info.State != state.StateStopped && s.selects(info)
	one := s.engaged[e.Name]
	switch {
	case !wanted && one != nil:
		one.cancel()
		delete(s.engaged, e.Name)
		if s.options.TellLost && !s.registry.IsElsewhere(e.Name) {
			s.queue.Add(Request{Cluster: e.Name, Lost: true})
		}
	case wanted && info.State == state.StateReady && (one == nil || one.epoch != info.Epoch):
		next := newEngagement(ctx, s, info)
		if one != nil {
			next.inherited = one.handOver()
		}
		s.engaged[e.Name] = next
		go next.run()
	}
}

// selects calls Options.Select. The function given to Follow calls it, so that the registry contains its panics.
func (s *remotes[object]) selects(info state.Status) bool {
	return s.options.Select == nil || s.options.Select(info)
}

// newOf returns an empty object of the kind.
func newOf[object client.Object](kind object) object {
	fresh, _ := kind.DeepCopyObject().(object) // a copy has the type of its original
	return fresh
}

func nameOfKind(obj client.Object) string {
	if gvk := obj.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		return gvk.GroupKind().String()
	}
	return fmt.Sprint(reflect.TypeOf(obj).Elem().Name())
}
