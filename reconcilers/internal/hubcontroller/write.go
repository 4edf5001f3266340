// SPDX-License-Identifier: Apache-2.0

package hubcontroller

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// FieldManager owns what this package writes.
const FieldManager = "clusterfx-hub"

// Patch writes what was changed in a Cluster since it was read, and nothing else. It returns a
// conflict if the Cluster has changed in the API server, too: a list such as that of the
// finalizers is only ever replaced by one that is made of the newest.
func Patch(ctx context.Context, c client.Client, before, after *hubv1.Cluster) error {
	return c.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(FieldManager))
}

// StaleRetry is how soon a reconcile starts over that met with a newer object than the cache has.
const StaleRetry = 50 * time.Millisecond

// RetryIfStale turns a conflict, which says no more than that the cache is behind, into another
// try.
func RetryIfStale(result ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: StaleRetry}, nil
	}
	return result, err
}
