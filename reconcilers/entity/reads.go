// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// ReadsObjects returns a source for Options.Reads: a change of an object that the Reconciler reads requests the primaries that keys
// returns. kind is that of the primaries. For objects of the hub use registry.Remote.HubObjects.
func ReadsObjects(c cache.Cache, obj client.Object, kind string, keys func(client.Object) []string) source.TypedSource[Request] {
	return source.TypedKind(c, obj, handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []Request {
		return requests(kind, keys(obj))
	}))
}

// ReadsEntities returns a source for Options.Reads: a change of an entity of another bucket requests the primaries that keys returns
// for its key. kind is that of the primaries.
func ReadsEntities[S any](s *Store[S], kind string, keys func(key string) []string) source.TypedSource[Request] {
	return source.TypedFunc[Request](func(ctx context.Context, q workqueue.TypedRateLimitingInterface[Request]) error {
		unsubscribe := s.bucket.Subscribe(func(c bucket.Change) {
			for _, r := range requests(kind, keys(c.Key)) {
				q.Add(r)
			}
		})
		context.AfterFunc(ctx, unsubscribe)
		return nil
	})
}

func requests(kind string, keys []string) []Request {
	all := make([]Request, 0, len(keys))
	for _, key := range keys {
		all = append(all, Request{Kind: kind, Key: key})
	}
	return all
}
