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

// Logger returns the logger of a controller. controller-runtime's own says which object a line is about with
// other keys for each kind; all lines about a remote have the key "cluster".
func Logger(mgr ctrl.Manager, controller string) logr.Logger {
	return mgr.GetLogger().WithValues("controller", controller)
}

// Backoff of what failed because of the hub's API server. Its default maximum is a quarter of an
// hour, by which a hub would stay behind after an outage.
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
		// A hub that lost its lease builds its App anew in the same process, where a name is
		// never given back.
		SkipNameValidation: &yes,
	}
}
