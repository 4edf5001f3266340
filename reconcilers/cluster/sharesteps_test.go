// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
)

// fixedRole is a Share that has one role for all Clusters, and counts those that were prepared.
type fixedRole struct {
	everything
	role     Role
	runner   hubv1.RunnerStatus
	prepared int
}

func (f *fixedRole) RoleOf(registry.ClusterName, types.UID) (Role, hubv1.RunnerStatus) {
	return f.role, f.runner
}

func (f *fixedRole) Prepared(types.UID) { f.prepared++ }

// A Cluster counts as prepared only if this hub was to keep it warm, and nothing is left of an earlier remote of that name.
func TestActAs_Prepared(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for what, tc := range map[string]struct {
		role    Role
		deleted *metav1.Time
		want    int
	}{
		"another hub has it":                 {role: RoleNone},
		"an earlier remote is being stopped": {role: RoleWarm},
		"it is being deleted":                {role: RoleWarm, deleted: &now, want: 1},
	} {
		e := &returned{ended: ended{slow: slow{info: registry.Status{Revision: "first/1"}}}, stops: make(chan struct{})}
		share := &fixedRole{role: tc.role}
		r := reconcilerOf(e, share)
		runs, _, err := r.actAs(t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "second", DeletionTimestamp: tc.deleted}})
		if runs || err != nil || share.prepared != tc.want {
			t.Errorf("%s: runs %t, error %v, prepared %d times, want %d", what, runs, err, share.prepared, tc.want)
		}
		close(e.stops)
		r.removals.work.Wait()
	}
}

// Of two hubs only the runner starts an app that may end the process: a hub that keeps it warm waits for the report that it starts
// with the same spec and credentials.
func TestHasStarted(t *testing.T) {
	t.Parallel()
	found := but(good, func(c *credentials) { c.Reported.Fingerprint = "new" })
	for what, tc := range map[string]struct {
		status      metav1.ConditionStatus
		reason      string
		generation  int64 // of the report
		fingerprint string
		want        bool
	}{
		"it runs":                {metav1.ConditionTrue, hubv1.ReasonRunning, 2, "new", true},
		"a module fails":         {metav1.ConditionFalse, hubv1.ReasonModuleFailed, 2, "new", true},
		"it is starting":         {metav1.ConditionUnknown, hubv1.ReasonStarting, 2, "new", false},
		"it crashes the hub":     {metav1.ConditionFalse, hubv1.ReasonQuarantined, 2, "new", false},
		"with another spec":      {metav1.ConditionTrue, hubv1.ReasonRunning, 1, "new", false},
		"with other credentials": {metav1.ConditionTrue, hubv1.ReasonRunning, 2, "old", false},
		"nothing is reported":    {want: false},
	} {
		c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		if tc.reason != "" {
			c.Status.Conditions = []metav1.Condition{{
				Type: hubv1.ConditionModulesReady, Status: tc.status, Reason: tc.reason, ObservedGeneration: tc.generation,
			}}
		}
		c.Status.Credentials.Fingerprint = tc.fingerprint
		if got := hasStarted(c, found); got != tc.want {
			t.Errorf("%s: got %t", what, got)
		}
	}
}
