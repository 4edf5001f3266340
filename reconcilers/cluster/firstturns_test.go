// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

func TestFirstTurns(t *testing.T) {
	t.Parallel()
	status := func(ready metav1.ConditionStatus, reason string) hubv1.ClusterStatus {
		return hubv1.ClusterStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{{Type: hubv1.ConditionReady, Status: ready, Reason: reason}}}
	}
	ready, failed := status(metav1.ConditionTrue, hubv1.ReasonReady), status(metav1.ConditionFalse, hubv1.ReasonTimedOut)
	unknown, paused := status(metav1.ConditionUnknown, "Starting"), status(metav1.ConditionUnknown, hubv1.ReasonPaused)
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		found    hubv1.ClusterStatus // when the hub started
		now      hubv1.ClusterStatus // of the remote
		changed  bool                // the user has changed the spec
		after    time.Duration
		want     time.Duration
		wantNext time.Duration // if it is Unknown a second later
	}{
		"it was Ready and waits":           {ready, unknown, false, time.Second, 29 * time.Second, 28 * time.Second},
		"it waits for too long":            {ready, unknown, false, 30 * time.Second, 0, 0},
		"it is Ready again, and lost":      {ready, ready, false, time.Second, 0, 0},
		"it is down":                       {ready, failed, false, time.Second, 0, 0},
		"it is paused":                     {ready, paused, false, time.Second, 0, 0},
		"its spec was changed":             {ready, unknown, true, time.Second, 0, 0},
		"it was not Ready":                 {failed, unknown, false, time.Second, 0, 0},
		"it was Ready with another spec":   {hubv1.ClusterStatus{ObservedGeneration: 3, Conditions: ready.Conditions}, unknown, false, time.Second, 0, 0},
		"it is new":                        {hubv1.ClusterStatus{ObservedGeneration: -1, Conditions: unknown.Conditions}, unknown, false, time.Second, 9 * time.Second, 8 * time.Second},
		"it is new and waits for too long": {hubv1.ClusterStatus{}, unknown, false, 10 * time.Second, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 1}, Status: tc.found}
			var turns firstTurns
			turns.begin([]hubv1.Cluster{*c}, start)
			turns.noteRole(c, RoleRunner, hubv1.RunnerStatus{}, start)
			if tc.changed {
				c.Generation++
			}
			if got := turns.wait(c, tc.now, start.Add(tc.after)); got != tc.want {
				t.Errorf("waits for %s, want %s", got, tc.want)
			}
			if got := turns.wait(c, unknown, start.Add(tc.after+time.Second)); got != tc.wantNext {
				t.Errorf("waits for %s a second later, want %s", got, tc.wantNext)
			}
		})
	}
	var turns firstTurns
	turns.begin(nil, start)
	if got := turns.wait(&hubv1.Cluster{Status: ready}, unknown, start); got != 0 {
		t.Errorf("a Cluster that was created later waits for %s", got)
	}
}

// A Cluster that another runner reported last keeps its status for ten seconds, from the moment when this hub runs it.
func TestFirstTurns_TakenOver(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	unknown := hubv1.ClusterStatus{Conditions: []metav1.Condition{{Type: hubv1.ConditionReady, Status: metav1.ConditionUnknown, Reason: "Starting"}}}
	runner := func(name string, epoch int32) hubv1.RunnerStatus { return hubv1.RunnerStatus{Name: name, Epoch: epoch} }
	for name, tc := range map[string]struct {
		before, now hubv1.RunnerStatus
		first       Role // before this hub runs it
		want        time.Duration
	}{
		"another replica":                   {runner("a", 1), runner("b", 2), RoleNone, keepsTaken},
		"another replica, in a hand-over":   {runner("a", 1), runner("b", 2), RoleWarm, keepsTaken},
		"the same name in an earlier epoch": {runner("a", 1), runner("a", 2), RoleNone, keepsTaken},
		"the same epoch":                    {runner("a", 1), runner("a", 1), RoleNone, keepsReady},
		"a hub that has all Clusters":       {runner("", 0), runner("", 0), RoleNone, keepsReady},
		"the first replica after that":      {runner("", 0), runner("a", 1), RoleNone, keepsReady},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: 1}, Status: hubv1.ClusterStatus{
				ObservedGeneration: 1, Runner: tc.before,
				Conditions: []metav1.Condition{{Type: hubv1.ConditionReady, Status: metav1.ConditionTrue, Reason: hubv1.ReasonReady}},
			}}
			var turns firstTurns
			turns.noteRole(c, tc.first, tc.now, start)
			taken := start.Add(time.Hour)
			turns.noteRole(c, RoleRunner, tc.now, taken)
			turns.noteRole(c, RoleRunner, tc.now, taken.Add(time.Second)) // which prolongs nothing
			if got := turns.wait(c, unknown, taken.Add(time.Second)); got != tc.want-time.Second {
				t.Errorf("waits for %s, want %s", got, tc.want-time.Second)
			}
			if got := turns.wait(c, unknown, taken.Add(tc.want)); got != 0 {
				t.Errorf("waits for %s, want 0", got)
			}
		})
	}
	marked := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: 1}, Status: hubv1.ClusterStatus{
		ObservedGeneration: 1, Runner: runner("a", 1),
		Conditions: []metav1.Condition{{Type: hubv1.ConditionReady, Status: metav1.ConditionUnknown, Reason: hubv1.ReasonRunnerLost}},
	}}
	var turns firstTurns
	turns.noteRole(marked, RoleRunner, runner("b", 2), start)
	if got := turns.wait(marked, unknown, start); got != 0 {
		t.Errorf("the first report of a Cluster that lost its runner waits for %s", got)
	}
}
