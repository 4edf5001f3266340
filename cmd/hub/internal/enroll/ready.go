// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

// waitReady prints the reason while the Cluster is not Ready. It fails at once for a new one that waiting does not change; what a hub
// reports of a known one may be about the credentials of before.
func (r *Registration) waitReady(ctx context.Context, begin time.Time) error {
	if r.Timeout == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, ErrNotReady)
	defer cancel()
	last := ""
	err := access.Poll(ctx, pollPeriod, func() (bool, error) {
		var cluster hubv1.Cluster
		if err := r.Hub.Get(ctx, client.ObjectKey{Name: r.Name}, &cluster); err != nil {
			return false, r.Hub.Explain(err)
		}
		all := cluster.Status.Conditions
		ready := meta.FindStatusCondition(all, hubv1.ConditionReady)
		if ready == nil || cluster.Status.ObservedGeneration != cluster.Generation {
			all, ready = nil, &metav1.Condition{Reason: hubv1.ReasonPending, Message: "Waiting for the hub"}
		}
		isReady := ready.Status == metav1.ConditionTrue
		if text := ready.Reason + ": " + ready.Message; text != last {
			if last = text; !isReady {
				r.Terminal.Step("%s", last)
			}
		}
		if r.known == nil && meta.IsStatusConditionTrue(all, hubv1.ConditionStalled) {
			return false, errStalled
		}
		return isReady, nil
	})
	switch {
	case errors.Is(err, errStalled):
		return fmt.Errorf("%w: %s", err, access.WithAdvice(last, "then run the same command again"))
	case errors.Is(err, ErrNotReady):
		return fmt.Errorf("%w after %s: %s", err, r.Timeout, access.WithAdvice(last, "hub check "+r.Name+" looks for the cause"))
	case err == nil:
		r.Terminal.Done("the Cluster is Ready after %s", time.Since(begin).Round(100*time.Millisecond))
	}
	return err
}
