// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

func newDirect(t *testing.T) client.Client {
	t.Helper()
	config := fleettest.Cluster(t, "hub").Config()
	fleettest.InstallCRDs(t, config)
	scheme := runtime.NewScheme()
	fatal(t, hubv1.AddToScheme(scheme))
	direct, err := client.New(config, client.Options{Scheme: scheme})
	fatal(t, err)
	return direct
}

func recorderFor(c client.Client) hubcontroller.Recorder {
	return hubcontroller.Recorder{EventRecorder: events.NewFakeRecorder(100), Scheme: c.Scheme()}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Of two hubs that report a Cluster one does. A report changes no more than what the hub is responsible for: the inventory and a condition of another writer that were written after
// the Cluster was read survive, since the report conflicts, and a field that becomes empty vanishes.
func TestReport(t *testing.T) {
	t.Parallel()
	direct := newDirect(t)
	one := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "report-"}}
	one.Spec.KubeconfigSecretRef.Name = "a"
	fatal(t, direct.Create(t.Context(), one))
	r := &reconciler{Client: direct, events: recorderFor(direct)}
	second := &reconciler{Client: direct, events: recorderFor(direct)}
	fatal(t, second.report(t.Context(), one.DeepCopy(), whole()))
	if err := r.report(t.Context(), one, whole()); !apierrors.IsConflict(err) {
		t.Errorf("the report of a second hub ends with %v, want a conflict", err)
	}
	stale := second.memory.of(one.Name).latest(one)
	others := stale.DeepCopy()
	others.Status.Inventory, others.Status.Remains = fullStatus().Inventory, fullStatus().Remains
	others.Status.Conditions = slices.Insert(others.Status.Conditions, 0, but(whole().Conditions[0], func(c *metav1.Condition) { c.Type = "Other" }))
	fatal(t, direct.Status().Patch(t.Context(), others, client.MergeFrom(stale)))

	less := whole()
	less.Version, less.Modules, less.Runner, less.Credentials = "", nil, hubv1.RunnerStatus{}, hubv1.CredentialsStatus{}
	result, err := hubcontroller.RetryIfStale(ctrl.Result{}, r.report(t.Context(), stale, less))
	if err != nil || result.RequeueAfter != hubcontroller.StaleRetry {
		t.Errorf("a conflict ends with %+v and the error %v, want another try without an error", result, err)
	}
	fatal(t, r.report(t.Context(), others, less))
	var got hubv1.Cluster
	fatal(t, direct.Get(t.Context(), client.ObjectKeyFromObject(one), &got))
	if got.Status.Inventory.Nodes == nil || got.Status.Inventory.Allocatable.CPU == nil {
		t.Errorf("the inventory is lost: %+v", got.Status.Inventory)
	}
	if len(got.Status.Remains) != 1 {
		t.Errorf("what remains of a rule is lost: %+v", got.Status.Remains)
	}
	if len(got.Status.Conditions) != 2 || got.Status.Conditions[1].Type != "Other" {
		t.Errorf("got the conditions %+v, want Ready and then that of the other writer", got.Status.Conditions)
	}
	if s := got.Status; s.Version != "" || s.Modules != nil || s.Runner.Name != "" || s.Credentials.Type != "" || s.ID == "" {
		t.Errorf("fields that are empty now remain: %+v", s)
	}
	transition := but(less.Conditions[0], func(c *metav1.Condition) { c.LastTransitionTime = metav1.Now() })
	less.Conditions = []metav1.Condition{transition}
	fatal(t, r.report(t.Context(), &got, less))
	if r.hasToldMissing.Load() {
		t.Error("the hub asks what a complete CRD lacks")
	}
	fatal(t, direct.Delete(t.Context(), one))
}

// A hub that loses a Cluster between the beginning of a reconcile and its report does not report it, nor does it report in place
// of a runner with a higher epoch.
func TestReportAsRunner(t *testing.T) {
	t.Parallel()
	direct := newDirect(t)
	for what, tc := range map[string]struct {
		now     fixedRole
		before  hubv1.RunnerStatus
		reports bool
		waits   bool
	}{
		"it is the runner":        {now: fixedRole{role: RoleRunner, runner: runnerAt("a", 7)}, before: runnerAt("b", 6), reports: true},
		"it is the runner again":  {now: fixedRole{role: RoleRunner, runner: runnerAt("a", 9)}, before: runnerAt("b", 6)},
		"it has lost the Cluster": {now: fixedRole{role: RoleNone}, before: runnerAt("b", 6)},
		"it keeps it warm":        {now: fixedRole{role: RoleWarm}, before: runnerAt("b", 6)},
		"another one has it":      {now: fixedRole{role: RoleRunner, runner: runnerAt("a", 7)}, before: runnerAt("b", 8), waits: true},
	} {
		one := &hubv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "report-"},
			Spec:       hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: "a"}},
		}
		fatal(t, direct.Create(t.Context(), one))
		one.Status = whole()
		one.Status.Runner = tc.before
		fatal(t, direct.Status().Update(t.Context(), one))
		version := one.ResourceVersion
		r := &reconciler{Client: direct, share: &tc.now, events: recorderFor(direct)}
		status := whole()
		status.Runner = runnerAt("a", 7)
		if again, err := r.reportAsRunner(t.Context(), one, status, allWell); err != nil || (again > 0) != tc.waits {
			t.Errorf("%s: got %s and error %v", what, again, err)
		}
		fatal(t, direct.Get(t.Context(), client.ObjectKeyFromObject(one), one))
		if hasReported := one.ResourceVersion != version; hasReported != tc.reports || hasReported != (one.Status.Runner.Name == "a") {
			t.Errorf("%s: it has reported: %t, and the runner is %+v", what, hasReported, one.Status.Runner)
		}
		fatal(t, direct.Delete(t.Context(), one))
	}
}
