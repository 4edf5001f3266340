// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// InitialRequest returns a source with one request at the controller's start, for a controller that has work also
// without objects:
//
//	WatchesRawSource(watch.InitialRequest(ctrl.Request{}))
func InitialRequest[request comparable](first request) source.TypedSource[request] {
	return source.TypedFunc[request](func(
		_ context.Context, queue workqueue.TypedRateLimitingInterface[request],
	) error {
		queue.Add(first)
		return nil
	})
}
