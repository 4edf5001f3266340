// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// reported is a Cluster that a runner has reported as Ready.
func reported(uid string) hubv1.Cluster {
	return hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), ResourceVersion: "1"},
		Status: hubv1.ClusterStatus{Runner: hubv1.RunnerStatus{Name: "a"}, Conditions: []metav1.Condition{
			{Type: hubv1.ConditionReady, Status: metav1.ConditionTrue, Reason: hubv1.ReasonReady},
		}},
	}
}

func observed(holders ...string) replica.Observation {
	o := replica.Observation{Assigns: true, Free: []bool{true}} // What runs once has no Cluster.
	for _, holder := range holders {
		o.Free = append(o.Free, holder == "")
	}
	return o
}

// A Cluster is marked when no live replica has had its shard for the grace, each time since the last holder.
func TestMarks_Grace(t *testing.T) {
	t.Parallel()
	m := &marks{count: 1}
	all := []hubv1.Cluster{reported("x")}
	now := time.Now()
	for _, step := range []struct {
		after  time.Duration
		holder string
		due    int
	}{{0, "", 0}, {4 * time.Second, "", 0}, {5 * time.Second, "", 1}, {6 * time.Second, "b", 0}, {7 * time.Second, "", 0}, {11 * time.Second, "", 0}, {12 * time.Second, "", 1}} {
		m.note(observed(step.holder), now.Add(step.after))
		if due := m.due(all, now.Add(step.after)); len(due) != step.due {
			t.Errorf("after %s with the holder %q: %d Clusters are due, want %d", step.after, step.holder, len(due), step.due)
		}
	}
}

// What no runner has reported, or what would be wrong without a runner anyway, is not marked.
func TestMarks_Due(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, change := range map[string]func(*hubv1.Cluster){
		"never reported": func(c *hubv1.Cluster) { c.Status.Runner.Name = "" },
		"deleted":        func(c *hubv1.Cluster) { c.DeletionTimestamp = &now },
		"paused":         func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterPaused },
		"marked": func(c *hubv1.Cluster) {
			c.Status.Conditions[0].Status, c.Status.Conditions[0].Reason = metav1.ConditionUnknown, hubv1.ReasonRunnerLost
		},
	} {
		m := &marks{count: 1}
		m.note(observed(""), now.Time)
		one := reported("x")
		change(&one)
		if due := m.due([]hubv1.Cluster{one}, now.Add(time.Minute)); len(due) > 0 {
			t.Errorf("a Cluster that is %s is marked", name)
		}
	}
}

// A pass marks a fifth of the fleet at most, or five, and the passes together all of it.
func TestMarks_AFifth(t *testing.T) {
	t.Parallel()
	for n, most := range map[int]int{3: 3, 20: 5, 100: 20} {
		m := &marks{count: 4}
		m.note(observed("", "", "", ""), time.Now())
		var all []hubv1.Cluster
		for i := range n {
			all = append(all, reported(fmt.Sprint("c", i)))
		}
		left := n
		for left > 0 {
			due := m.due(all, time.Now().Add(time.Minute))
			if len(due) != min(most, left) {
				t.Fatalf("%d of %d Clusters are due, want %d", len(due), n, min(most, left))
			}
			for _, one := range due {
				one.Status.Conditions[0].Status, one.Status.Conditions[0].Reason = metav1.ConditionUnknown, hubv1.ReasonRunnerLost
			}
			left -= len(due)
		}
	}
}

// A mark replaces the condition Ready and nothing else, with an event. It leaves a Cluster that was reported meanwhile, or that a live
// replica has; only the assigner marks; and the next report takes the mark back.
func TestMarks_Pass(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "marks")
	fleettest.InstallCRDs(t, hub.Config())
	c := fleettest.Client(t, hub, hubv1.AddToScheme)
	made := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: "one"}}}
	must(t, c.Create(t.Context(), made))
	report := func(epoch int32) {
		t.Helper()
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(made), made))
		before := made.DeepCopy()
		made.Status = reported("x").Status
		made.Status.Runner.Epoch, made.Status.Version, made.Status.Runner.Type = epoch, "v1.34.1", hubv1.RunnerHub
		made.Status.Runner.Since, made.Status.Conditions[0].LastTransitionTime = metav1.Now(), metav1.NewTime(time.Now().Add(-time.Hour))
		must(t, c.Status().Patch(t.Context(), made, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner("clusterfx-hub")))
	}
	report(1)
	o, recorder := observed(""), events.NewFakeRecorder(10)
	cached := &stale{Client: c}
	m := &marks{
		observe: func() (replica.Observation, bool) { return o, true }, count: 1, clusters: cached, client: c, events: recorder,
		written: newMoves().marks,
	}
	pass := func(want float64, why string) {
		t.Helper()
		must(t, m.pass(t.Context()))
		for shard := range m.free {
			m.free[shard] = time.Now().Add(-time.Minute)
		}
		must(t, m.pass(t.Context()))
		if got := testutil.ToFloat64(m.written); got != want || len(recorder.Events) != int(want) {
			t.Errorf("%s: %v marks and %d events, want %v", why, got, len(recorder.Events), want)
		}
	}
	o.Assigns = false
	pass(0, "another replica is the assigner")
	o = observed("b")
	pass(0, "a live replica has the shard")
	o = observed("")
	cached.keep(t)
	report(2)
	pass(0, "the cache has an earlier version")
	cached.kept = nil
	pass(1, "no live replica has the shard")
	before := made.DeepCopy()
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(made), made))
	ready := meta.FindStatusCondition(made.Status.Conditions, hubv1.ConditionReady)
	if ready.Status != metav1.ConditionUnknown || ready.Reason != hubv1.ReasonRunnerLost || time.Since(ready.LastTransitionTime.Time) > 10*time.Minute {
		t.Errorf("Ready is %+v", ready)
	}
	if made.Status.Runner.Epoch != before.Status.Runner.Epoch || made.Status.Version != before.Status.Version || len(made.Status.Conditions) != 1 {
		t.Errorf("the mark changes the status from %+v to %+v", before.Status, made.Status)
	}
	if !slices.ContainsFunc(made.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == MarkManager && e.Subresource == "status" }) {
		t.Errorf("the mark belongs to %v", made.ManagedFields)
	}
	report(3)
	testkit.Equal(t, meta.FindStatusCondition(made.Status.Conditions, hubv1.ConditionReady).Reason, hubv1.ReasonReady, "after the next report")
	testkit.Equal(t, shards.Of(made.UID, 1), 1, "the shard")
}

// stale is a cache that may keep what it had.
type stale struct {
	client.Client
	kept *hubv1.ClusterList
}

func (s *stale) keep(t *testing.T) {
	t.Helper()
	list := &hubv1.ClusterList{}
	must(t, s.Client.List(t.Context(), list))
	s.kept = list
}

func (s *stale) List(ctx context.Context, into client.ObjectList, o ...client.ListOption) error {
	if s.kept == nil {
		return s.Client.List(ctx, into, o...)
	}
	s.kept.DeepCopyInto(into.(*hubv1.ClusterList)) //nolint:forcetypeassert // See marks.pass.
	return nil
}
