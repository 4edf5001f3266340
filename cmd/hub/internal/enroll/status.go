// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

// report is the hub's status of a Cluster, for its present generation.
type report struct {
	ready metav1.Condition
	// stalled is true if waiting does not change ready: it takes a change of the Cluster, its Secret, the remote or the hub.
	stalled bool
}

// text is the reason and the message of a report.
func (r report) text() string { return r.ready.Reason + ": " + r.ready.Message }

// reportOf returns the report on a Cluster.
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

// stall distinguishes the report on the new credentials from the report on the previous credentials.
type stall struct {
	// before is the report when the credentials were written, empty for a new Cluster, and since the time of that.
	before report
	since  time.Time
}

// judgement is how long a running hub takes to judge new credentials. If the result is the same as before, the hub writes
// nothing, so the report of a hub that has judged looks like the report of a hub that is down.
const judgement = 10 * time.Second

// ends returns why a report ends the wait for the hub, or nil: errStalled for a report on the new credentials, and
// errUnchanged for a report that may be on the previous credentials.
func (s *stall) ends(now report) error {
	if s.before.stalled && now.text() != s.before.text() {
		s.before = report{} // The hub has judged.
	}
	switch {
	case !now.stalled:
		return nil
	case !s.before.stalled:
		return errStalled
	case time.Since(s.since) >= judgement:
		return errUnchanged
	}
	return nil
}
