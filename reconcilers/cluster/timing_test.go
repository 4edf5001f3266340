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

func runnerAt(name string, epoch int32) hubv1.RunnerStatus {
	return hubv1.RunnerStatus{Name: name, Type: hubv1.RunnerHub, Version: "v1", Epoch: epoch, Since: metav1.Now().Rfc3339Copy()}
}

func readyAs(ready metav1.ConditionStatus, reason string) hubv1.ClusterStatus {
	return hubv1.ClusterStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{{Type: hubv1.ConditionReady, Status: ready, Reason: reason}}}
}

// When a status is reported: what was Ready, or is new, waits for the first turn of its remote, a transient state settles, a runner with a
// higher epoch is left alone for a minute, and a start has no controllers at first.
func TestTiming(t *testing.T) {
	t.Parallel()
	ready, failed := readyAs(metav1.ConditionTrue, hubv1.ReasonReady), readyAs(metav1.ConditionFalse, hubv1.ReasonTimedOut)
	unknown, paused := readyAs(metav1.ConditionUnknown, hubv1.ReasonStarting), readyAs(metav1.ConditionUnknown, hubv1.ReasonPaused)
	by := func(name string, epoch int32, s hubv1.ClusterStatus) hubv1.ClusterStatus {
		s.Runner = runnerAt(name, epoch)
		return s
	}
	with := func(controller hubv1.ModuleState, s hubv1.ClusterStatus) hubv1.ClusterStatus {
		s.Modules = []hubv1.ModuleStatus{{Name: "a", Controllers: []hubv1.ControllerStatus{{Name: "b", State: controller}}}}
		return s
	}
	const s, ms, long = time.Second, time.Millisecond, time.Hour
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		found       hubv1.ClusterStatus // when the hub started
		now         hubv1.ClusterStatus // of the remote
		changed     bool                // the user has changed the spec
		deleted     bool
		state       state.State
		since       time.Duration // how long the remote has its state
		after       time.Duration // since the start of the hub
		want, brief time.Duration
		later       time.Duration // if it is Unknown a second later
	}{
		"it was Ready and waits":           {found: ready, now: unknown, since: long, after: s, want: 29 * s, later: 28 * s},
		"it waits for too long":            {found: ready, now: unknown, since: long, after: 30 * s},
		"it is Ready again, and lost":      {found: ready, now: ready, since: long, after: s},
		"it is down":                       {found: ready, now: failed, since: long, after: s},
		"it is paused":                     {found: ready, now: paused, since: long, after: s},
		"its spec was changed":             {found: ready, now: unknown, changed: true, since: long, after: s},
		"it was not Ready":                 {found: failed, now: unknown, since: long, after: s},
		"it was Ready with another spec":   {found: hubv1.ClusterStatus{ObservedGeneration: 3, Conditions: ready.Conditions}, now: unknown, since: long, after: s},
		"it is new":                        {found: hubv1.ClusterStatus{ObservedGeneration: -1, Conditions: unknown.Conditions}, now: unknown, since: long, after: s, want: 9 * s, later: 8 * s},
		"it is new and waits for too long": {now: unknown, since: long, after: 10 * s},
		"it is being deleted":              {found: ready, now: unknown, deleted: true, after: s},

		"a start settles":     {found: failed, now: unknown, since: 250 * ms, after: s, want: 750 * ms},
		"a pause does not":    {found: failed, now: paused, after: s},
		"a failure does not":  {found: ready, now: failed, after: s},
		"success does not":    {found: failed, now: ready, after: s},
		"the turn is awaited": {found: ready, now: unknown, after: s, want: 29 * s, later: 28 * s},

		"another runner, later, has reported":         {found: by("b", 8, failed), now: by("a", 7, ready), after: s, want: 60 * s, later: 59 * s},
		"another runner, earlier, has reported":       {found: by("b", 6, failed), now: by("a", 7, ready), after: s},
		"this runner has reported, later":             {found: by("a", 8, failed), now: by("a", 7, ready), after: s},
		"no runner has reported":                      {found: failed, now: by("a", 7, ready), after: s},
		"a runner has, and the hub shares with none":  {found: by("b", 8, failed), now: ready, after: s},
		"another runner has reported that it deletes": {found: by("b", 8, failed), now: by("a", 7, unknown), deleted: true, after: s, want: 60 * s, later: 59 * s},

		"an app that runs":                      {found: failed, now: with(hubv1.ModuleRunning, ready), state: state.StateReady, after: s},
		"an app that begins to start":           {found: failed, now: with(hubv1.ModuleStarting, unknown), state: state.StateStarting, since: 3 * s, after: s, brief: 7 * s},
		"an app that starts slowly":             {found: failed, now: with(hubv1.ModuleStarting, unknown), state: state.StateStarting, since: 11 * s, after: s},
		"an app with something in its way":      {found: failed, now: with(hubv1.ModuleWaiting, failed), state: state.StateStarting, since: s, after: s},
		"an app that failed and starts again":   {found: failed, now: with(hubv1.ModuleStarting, failed), state: state.StateStarting, since: s, after: s, brief: 9 * s},
		"an app that waits, but is not blocked": {found: failed, now: with(hubv1.ModuleWaiting, unknown), state: state.StateStarting, since: s, after: s, brief: 9 * s},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 1}, Status: tc.found}
			if tc.deleted {
				c.DeletionTimestamp = &metav1.Time{Time: start}
			}
			var when timing
			when.await(c, start)
			when.noteRole(c, RoleRunner, tc.found.Runner, start)
			if tc.changed {
				c.Generation++
			}
			now := start.Add(tc.after)
			info := registry.Status{State: tc.state, Since: now.Add(-tc.since)}
			if wait, brief := when.reportIn(c, &tc.now, info, now); wait != tc.want || brief != tc.brief {
				t.Errorf("waits for %s, and has no controllers for %s; want %s and %s", wait, brief, tc.want, tc.brief)
			}
			info.Since = start.Add(-long)
			later := by(tc.now.Runner.Name, tc.now.Runner.Epoch, unknown)
			if wait, _ := when.reportIn(c, &later, info, now.Add(s)); wait != tc.later {
				t.Errorf("waits for %s a second later, want %s", wait, tc.later)
			}
			if wait, brief := when.reportIn(c, &later, info, now.Add(outrankedFor)); wait != 0 || brief != 0 {
				t.Errorf("waits for %s, and has no controllers for %s, after a minute", wait, brief)
			}
		})
	}
	var created timing // later
	if wait, _ := created.reportIn(&hubv1.Cluster{Status: ready}, &unknown, registry.Status{}, start); wait != 0 {
		t.Errorf("a Cluster that was created later waits for %s", wait)
	}
}

// A Cluster that another runner reported last keeps its status for ten seconds, from the moment when this hub runs it.
func TestTiming_TakenOver(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	unknown := readyAs(metav1.ConditionUnknown, hubv1.ReasonStarting)
	runner := func(name string, epoch int32) hubv1.RunnerStatus { return hubv1.RunnerStatus{Name: name, Epoch: epoch} }
	waits := func(when *timing, c *hubv1.Cluster, now time.Time) time.Duration {
		wait, _ := when.reportIn(c, &unknown, registry.Status{}, now)
		return wait
	}
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
			var turns timing
			turns.noteRole(c, tc.first, tc.now, start)
			taken := start.Add(time.Hour)
			turns.noteRole(c, RoleRunner, tc.now, taken)
			turns.noteRole(c, RoleRunner, tc.now, taken.Add(time.Second)) // which prolongs nothing
			if got := waits(&turns, c, taken.Add(time.Second)); got != tc.want-time.Second {
				t.Errorf("waits for %s, want %s", got, tc.want-time.Second)
			}
			if got := waits(&turns, c, taken.Add(tc.want)); got != 0 {
				t.Errorf("waits for %s, want 0", got)
			}
		})
	}
	marked := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: 1}, Status: hubv1.ClusterStatus{
		ObservedGeneration: 1, Runner: runner("a", 1),
		Conditions: []metav1.Condition{{Type: hubv1.ConditionReady, Status: metav1.ConditionUnknown, Reason: hubv1.ReasonRunnerLost}},
	}}
	var turns timing
	turns.noteRole(marked, RoleRunner, runner("b", 2), start)
	if got := waits(&turns, marked, start); got != 0 {
		t.Errorf("the first report of a Cluster that lost its runner waits for %s", got)
	}
}
