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

// waitReady prints the reason while the Cluster is not Ready. It fails at once for one that waiting does not change.
func (r *Registration) waitReady(ctx context.Context, begin time.Time, stalled *stall) error {
	if r.Timeout == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, ErrNotReady)
	defer cancel()
	last := ""
	err := access.Poll(ctx, pollPeriod, func() (bool, error) {
		now, err := reportOf(ctx, r.Hub, r.Name)
		if err != nil {
			return false, err
		}
		ready := now.ready.Status == metav1.ConditionTrue
		if now.text() != last {
			if last = now.text(); !ready {
				r.Terminal.Step("%s", last)
			}
		}
		if stalled.isFinal(now) {
			return ready, errStalled
		}
		return ready, nil
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

type report struct {
	ready metav1.Condition
	// stalled: it takes a change of the Cluster, its Secret, the remote or the hub.
	stalled bool
}

func (r report) text() string { return r.ready.Reason + ": " + r.ready.Message }

func reportOf(ctx context.Context, hub *access.Cluster, name string) (report, error) {
	var cluster hubv1.Cluster
	pending := report{ready: metav1.Condition{Status: metav1.ConditionUnknown, Reason: hubv1.ReasonPending, Message: "Waiting for the hub"}}
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, &cluster); err != nil {
		return pending, hub.Explain(err)
	}
	ready := meta.FindStatusCondition(cluster.Status.Conditions, hubv1.ConditionReady)
	if ready == nil || cluster.Status.ObservedGeneration != cluster.Generation {
		return pending, nil
	}
	return report{ready: *ready, stalled: meta.IsStatusConditionTrue(cluster.Status.Conditions, hubv1.ConditionStalled)}, nil
}

// stall tells a report on the new credentials from one on the previous, which a hub does not write again if the new ones are like them.
type stall struct {
	before report // empty for a new Cluster
}

// isFinal reports whether waiting does not help.
func (s *stall) isFinal(now report) bool {
	if now.text() != s.before.text() {
		s.before = report{} // The hub has judged.
	}
	return now.stalled && !s.before.stalled
}
