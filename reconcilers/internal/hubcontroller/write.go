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

// FieldManager owns the fields that the hub writes.
const FieldManager = "clusterfx-hub"

// Patch writes the changes that were made to a Cluster since it was read, and nothing else. It returns a conflict if the
// Cluster has also changed in the API server: a list such as the finalizers is replaced only by a list that was made
// from the latest version.
func Patch(ctx context.Context, c client.Client, before, after *hubv1.Cluster) error {
	return c.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(FieldManager))
}

// StaleRetry is how soon a reconcile that found a newer object than the cache has is retried.
const StaleRetry = 50 * time.Millisecond

// RetryIfStale turns a conflict, which only means that the cache is stale, into a retry.
func RetryIfStale(result ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: StaleRetry}, nil
	}
	return result, err
}
