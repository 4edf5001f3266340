// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// lockType is the type of the lock of a Cluster's record. It appears in no status.
const lockType = "Record"

// locks are the locks of the records, one for each Cluster.
type locks struct {
	host *guard.Host[*hubv1.Cluster]
}

// hold runs a task while it holds the lock of the Cluster's record. The error is the task's error, or explains why
// there was no lock.
func (l locks) hold(
	ctx context.Context, c *hubv1.Cluster, intent string, task func(context.Context, guard.Attempt) error,
) error {
	controller, err := l.host.Controller(ctx, c, lockType)
	if err != nil {
		return err
	}
	err = controller.Guard(ctx, intent, func(ctx context.Context, a guard.Attempt) (guard.Outcome, error) {
		return guard.Outcome{Status: metav1.ConditionTrue, Reason: "Done"}, task(ctx, a)
	})
	switch {
	case errors.Is(err, guard.ErrLocked):
		return &pipeline.ReasonError{
			Reason:  ReasonLocked,
			Message: "Another hub is changing the record, or was killed while it did; its lock expires by itself", Err: err,
		}
	case errors.Is(err, guard.ErrStale), errors.Is(err, errChanged):
		clusters := schema.GroupResource{Group: hubv1.GroupName, Resource: "clusters"}
		return apierrors.NewConflict(clusters, c.Name, err) // which is tried again without a word
	}
	return err
}

// forget deletes the Lease that a lock was kept in, when there is nothing left to lock. That is before the pipeline
// removes the finalizer, since nothing of this module runs after it. If the removal fails the deletion may be repeated,
// under a new lock, which does no harm: it finds that there is no record of the Cluster. Nothing is created in between,
// since a guard reads the Cluster before it runs a task, and that is being deleted. So no Lease is left to be swept.
func (l locks) forget(ctx context.Context, c *hubv1.Cluster) error {
	controller, err := l.host.Controller(ctx, c, lockType)
	if err != nil {
		return err
	}
	return controller.Forget(ctx)
}
