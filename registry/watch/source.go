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

// Options select objects and remotes, and map objects to requests. The zero value makes a request for each object of
// the kind in all remotes.
type Options[object client.Object] struct {
	// Select picks remotes, again when one changes; see state.MatchLabels. Default: all.
	Select func(state.Status) bool
	// Predicates drop events; all must agree to one.
	Predicates []predicate.TypedPredicate[object]
	// Map returns the requests of an object. It must return at once and not change it. Default: the object itself.
	Map func(ctx context.Context, cluster state.ClusterName, obj object) []Request
	// Indexes are added to each cache before the first of its objects makes a request.
	Indexes []Index
	// TellLost adds a request with Lost when a remote has left the hub or is no longer selected. One that is
	// unreachable, or that another replica runs (Registry.IsElsewhere), is not lost; the sources of that replica tell.
	// A hub that was not running does not learn of it: compare with the Clusters, or with Registry.List if the hub is
	// alone.
	TellLost bool
}

// Index makes objects findable by a field with client.MatchingFields.
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

type remotes[object client.Object] struct {
	registry *registry.Registry
	kind     object
	options  Options[object]
	queue    workqueue.TypedRateLimitingInterface[Request]
	log      logr.Logger
	engaged  map[state.ClusterName]*engagement[object] // take's alone
}

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

// selects is called by the function of Follow, so that the registry contains panics of Options.Select.
func (s *remotes[object]) selects(info state.Status) bool {
	return s.options.Select == nil || s.options.Select(info)
}

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
