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

// Patch writes only what was changed in a Cluster since it was read. If the Cluster has changed in the API server,
// the error is a conflict: lists such as finalizers are replaced whole.
func Patch(ctx context.Context, c client.Client, before, after *hubv1.Cluster) error {
	return c.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(FieldManager))
}

// StaleRetry is the retry of a reconcile whose cache is behind.
const StaleRetry = 50 * time.Millisecond

// RetryIfStale turns a conflict into a retry.
func RetryIfStale(result ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: StaleRetry}, nil
	}
	return result, err
}
