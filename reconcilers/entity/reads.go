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

// ReadsObjects is a source for Options.Reads: a change of an object requests the primaries that keys returns. For
// objects of the hub use registry.Remote.HubObjects.
func ReadsObjects(c cache.Cache, obj client.Object, keys func(client.Object) []string) source.TypedSource[Request] {
	return source.TypedKind(c, obj, handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []Request {
		return requests(keys(obj))
	}))
}

// ReadsEntities is a source for Options.Reads: a change in another bucket requests the primaries that keys returns. A
// worker calls keys, perhaps again for one change.
func ReadsEntities[S any](s *Store[S], keys func(key string) []string) source.TypedSource[Request] {
	return &readEntities{bucket: s.bucket, keys: keys}
}

// readEntities keeps the author's function away from the bucket's goroutine, where a panic would end the process and
// a wait stop all remotes.
type readEntities struct {
	bucket *bucket.Bucket
	keys   func(key string) []string
}

func (r *readEntities) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[Request]) error {
	context.AfterFunc(ctx, r.bucket.Subscribe(func(c bucket.Change) { q.Add(Request{Key: c.Key, read: r}) }))
	return nil
}

func requests(keys []string) []Request {
	all := make([]Request, 0, len(keys))
	for _, key := range keys {
		all = append(all, Request{Key: key})
	}
	return all
}
