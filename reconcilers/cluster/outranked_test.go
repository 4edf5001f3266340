// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

func runnerAt(name string, epoch int32) hubv1.RunnerStatus {
	return hubv1.RunnerStatus{Name: name, Type: hubv1.RunnerHub, Version: "v1", Epoch: epoch, Since: metav1.Now().Rfc3339Copy()}
}

// A report of a runner with a higher epoch stays for a minute. Then the epochs have begun again.
func TestOutranked(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for what, tc := range map[string]struct {
		before, now hubv1.RunnerStatus
		want        bool
	}{
		"another runner, later":         {runnerAt("b", 8), runnerAt("a", 7), true},
		"another runner, earlier":       {runnerAt("b", 6), runnerAt("a", 7), false},
		"this runner":                   {runnerAt("a", 8), runnerAt("a", 7), false},
		"none":                          {hubv1.RunnerStatus{}, runnerAt("a", 7), false},
		"the hub shares them with none": {runnerAt("b", 8), hubv1.RunnerStatus{}, false},
	} {
		var o outranked
		c := &hubv1.Cluster{Status: hubv1.ClusterStatus{Runner: tc.before}}
		if got := o.wait(c, tc.now, start) > 0; got != tc.want {
			t.Errorf("%s: waits %t, want %t", what, got, tc.want)
		}
		if got := o.wait(c, tc.now, start.Add(outrankedFor-time.Second)) > 0; got != tc.want {
			t.Errorf("%s: waits %t in the minute, want %t", what, got, tc.want)
		}
		if o.wait(c, tc.now, start.Add(outrankedFor)) > 0 {
			t.Errorf("%s: waits after a minute", what)
		}
	}
}

// A hub that loses a Cluster between the beginning of a reconcile and its report does not report it, nor does it report in place
// of a runner with a higher epoch.
func TestReportAsRunner(t *testing.T) {
	t.Parallel()
	config := fleettest.Cluster(t, "hub").Config()
	fleettest.InstallCRDs(t, config)
	scheme := runtime.NewScheme()
	fatal(t, hubv1.AddToScheme(scheme))
	direct, err := client.New(config, client.Options{Scheme: scheme})
	fatal(t, err)
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
		r := &reconciler{
			Client: direct, share: &tc.now, events: hubcontroller.Recorder{EventRecorder: events.NewFakeRecorder(100), Scheme: scheme},
		}
		status := whole()
		status.Runner = runnerAt("a", 7)
		if again, err := r.reportAsRunner(t.Context(), one, status); err != nil || (again > 0) != tc.waits {
			t.Errorf("%s: got %s and error %v", what, again, err)
		}
		fatal(t, direct.Get(t.Context(), client.ObjectKeyFromObject(one), one))
		if hasReported := one.ResourceVersion != version; hasReported != tc.reports || hasReported != (one.Status.Runner.Name == "a") {
			t.Errorf("%s: it has reported: %t, and the runner is %+v", what, hasReported, one.Status.Runner)
		}
		fatal(t, direct.Delete(t.Context(), one))
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
