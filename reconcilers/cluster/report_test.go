// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestWithoutControllers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tc := range map[string]struct {
		state  state.State
		ready  metav1.ConditionStatus
		since  time.Duration
		reason string
		itself hubv1.ModuleState // of the controller
		want   time.Duration     // until the controllers are reported
	}{
		"an app that runs":              {state.StateReady, metav1.ConditionTrue, 0, hubv1.ReasonReady, hubv1.ModuleRunning, 0},
		"a remote that begins to start": {state.StateStarting, metav1.ConditionUnknown, 3 * time.Second, hubv1.ReasonStarting, hubv1.ModuleStarting, 7 * time.Second},
		"a remote that starts slowly":   {state.StateStarting, metav1.ConditionUnknown, 11 * time.Second, hubv1.ReasonStarting, hubv1.ModuleStarting, 0},
		"one with something in its way": {state.StateStarting, metav1.ConditionFalse, time.Second, hubv1.ReasonForbidden, hubv1.ModuleWaiting, 0},
		"a remote that failed and starts again": {
			state.StateStarting, metav1.ConditionFalse, time.Second, hubv1.ReasonStartFailed, hubv1.ModuleStarting, 9 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := hubv1.ClusterStatus{
				Conditions: []metav1.Condition{{Type: hubv1.ConditionReady, Status: tc.ready, Reason: tc.reason}},
				Modules:    []hubv1.ModuleStatus{{Name: "a", Controllers: []hubv1.ControllerStatus{{Name: "b", State: tc.itself}}}},
			}
			info := registry.Status{State: tc.state, Since: now.Add(-tc.since)}
			if got := withoutControllers(&status, info, now); got != tc.want {
				t.Errorf("got the next report in %s, want %s", got, tc.want)
			}
			if left := len(status.Modules[0].Controllers) == 0; left != (tc.want > 0) {
				t.Errorf("the controllers are omitted: %t", left)
			}
		})
	}
}

func TestSettles(t *testing.T) {
	t.Parallel()
	now := time.Now()
	info := registry.Status{Since: now.Add(-settleTime / 4)}
	for name, tc := range map[string]struct {
		status metav1.ConditionStatus
		reason string
		want   time.Duration
	}{
		"a start is not reported at once": {metav1.ConditionUnknown, hubv1.ReasonStarting, settleTime * 3 / 4},
		"a pause is":                      {metav1.ConditionUnknown, hubv1.ReasonPaused, 0},
		"a failure is":                    {metav1.ConditionFalse, hubv1.ReasonUnreachable, 0},
		"success is":                      {metav1.ConditionTrue, hubv1.ReasonReady, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := hubv1.ClusterStatus{Conditions: []metav1.Condition{
				{Type: hubv1.ConditionReady, Status: tc.status, Reason: tc.reason},
			}}
			if got := settles(status, info, now); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if got := settles(status, info, now.Add(time.Hour)); got != 0 {
				t.Errorf("after an hour: got %s, want 0", got)
			}
		})
	}
}
