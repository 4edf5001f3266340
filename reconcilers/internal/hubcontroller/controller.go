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

// Logger returns the logger of a controller. controller-runtime's own logger names the object with
// a different key for each kind; all lines about a remote have the key "cluster".
func Logger(mgr ctrl.Manager, controller string) logr.Logger {
	return mgr.GetLogger().WithValues("controller", controller)
}

// Backoff of reconciles that failed because of the hub's API server. The default maximum of a quarter of an hour would
// delay the recovery of a hub after an outage.
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
		// A hub that lost its lease builds its App again in the same process, where a name is
		// never released.
		SkipNameValidation: &yes,
	}
}
