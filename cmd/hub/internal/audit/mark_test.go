// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

var must = testkit.Must

func server(t *testing.T) client.Client {
	t.Helper()
	hub := fleettest.Cluster(t, "hub")
	fleettest.InstallCRDs(t, hub.Config())
	return fleettest.Client(t, hub, hubv1.AddToScheme)
}

func report(t *testing.T, c client.Client, cluster *hubv1.Cluster, epoch int32) {
	t.Helper()
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster))
	long := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	condition := func(kind, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: "m", ObservedGeneration: 1, LastTransitionTime: long}
	}
	before := cluster.DeepCopy()
	cluster.Status = hubv1.ClusterStatus{
		ObservedGeneration: 1, Runner: hubv1.RunnerStatus{Name: "a", Type: hubv1.RunnerHub, Epoch: epoch, Since: long}, Version: "v1.34.1",
		Conditions: []metav1.Condition{
			condition(hubv1.ConditionReady, hubv1.ReasonReady), condition(hubv1.ConditionReachable, hubv1.ReasonProbeSucceeded),
		},
	}
	must(t, c.Status().Patch(t.Context(), cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner("clusterfx-hub")))
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster))
}

// A mark replaces the condition Ready and nothing else, with an event; it conflicts with a report that was written meanwhile; and
// the next report takes the condition back.
func TestWriter_Mark(t *testing.T) {
	t.Parallel()
	c := server(t)
	recorder := events.NewFakeRecorder(10)
	w := &writer{client: c, events: recorder}
	cluster := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: "one"}}}
	must(t, c.Create(t.Context(), cluster))
	report(t, c, cluster, 1)
	compared := cluster.DeepCopy()
	report(t, c, cluster, 2)
	if err := w.mark(t.Context(), compared, "gone"); !apierrors.IsConflict(err) {
		t.Fatalf("the mark of an earlier version ends with %v, want a conflict", err)
	}
	if n := len(recorder.Events); n > 0 {
		t.Errorf("%d events of a mark that was not written", n)
	}
	before := cluster.DeepCopy()
	must(t, w.mark(t.Context(), cluster, "gone"))
	if diff := recorder.Events; len(diff) != 1 {
		t.Errorf("%d events, want 1", len(diff))
	}
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster))
	expectMark(t, before, cluster)
	report(t, c, cluster, 3)
	ready := meta.FindStatusCondition(cluster.Status.Conditions, hubv1.ConditionReady)
	if ready.Status != metav1.ConditionTrue || ready.Reason != hubv1.ReasonReady || ready.Message != "m" {
		t.Errorf("after the next report: %+v", ready)
	}
	must(t, w.mark(t.Context(), cluster, "gone again"))
	if err := w.mark(t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "none", ResourceVersion: "1"}}, ""); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		t.Errorf("the mark of a Cluster that does not exist ends with %v", err)
	}
}

func expectMark(t *testing.T, before, after *hubv1.Cluster) {
	t.Helper()
	ready := meta.FindStatusCondition(after.Status.Conditions, hubv1.ConditionReady)
	if ready.Status != metav1.ConditionUnknown || ready.Reason != hubv1.ReasonRunnerLost || ready.Message != "gone" {
		t.Errorf("Ready is %+v", ready)
	}
	if age := time.Since(ready.LastTransitionTime.Time); age > 10*time.Minute {
		t.Errorf("the transition was %s ago", age)
	}
	if !slices.ContainsFunc(after.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == FieldManager && e.Subresource == "status" }) {
		t.Errorf("the mark belongs to %v", after.ManagedFields)
	}
	rest := after.Status.DeepCopy()
	*meta.FindStatusCondition(rest.Conditions, hubv1.ConditionReady) = *meta.FindStatusCondition(before.Status.Conditions, hubv1.ConditionReady)
	if rest.Runner != before.Status.Runner || rest.Version != before.Status.Version || len(rest.Conditions) != 2 ||
		!slices.Equal(rest.Conditions, before.Status.Conditions) {
		t.Errorf("the mark changes the status from %+v to %+v", before.Status, after.Status)
	}
}
