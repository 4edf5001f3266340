// SPDX-License-Identifier: Apache-2.0

package hubcontroller

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Logger names the remote in all lines with the key "cluster"; controller-runtime's key differs by kind.
func Logger(mgr ctrl.Manager, controller string) logr.Logger {
	return mgr.GetLogger().WithValues("controller", controller)
}

// The default maximum of a quarter of an hour would delay the recovery after an outage of the API server.
const (
	retryBase = 5 * time.Millisecond
	retryMax  = 30 * time.Second
)

// Options returns the options of a controller of the hub.
func Options[request comparable](concurrency int, queue liveness.NewQueue[request]) controller.TypedOptions[request] {
	yes := true
	return controller.TypedOptions[request]{
		MaxConcurrentReconciles: concurrency,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[request](retryBase, retryMax),
		NewQueue:                queue,
		ReconciliationTimeout:   liveness.ReconcileTimeout,
		// A hub that lost its lease builds its App again, and a name is never released.
		SkipNameValidation: &yes,
	}
}
