// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Whether a Cluster has a rival is known when the watch has reported the record of the cluster that its remote is now.
func TestRivals_AreKnown(t *testing.T) {
	t.Parallel()
	var r rivals // No case has another Cluster to read.
	r.byID.Set("seen", "one")
	status := func(id string, identity metav1.ConditionStatus) registry.Status {
		return registry.Status{
			ID: id, Reachable: state.Condition{Status: metav1.ConditionTrue}, Identity: state.Condition{Status: identity},
		}
	}
	for what, tc := range map[string]struct {
		name, recorded string
		info           registry.Status
		want           bool
	}{
		"no record":                    {name: "new"},
		"no record yet":                {name: "new", info: status("one", metav1.ConditionTrue)},
		"no record, and there is none": {name: "new", info: status("", metav1.ConditionUnknown), want: true},
		"a record that was not seen":   {name: "new", recorded: "new one"},
		"a record that was seen":       {name: "seen", recorded: "one", want: true},
		"the same cluster":             {name: "seen", recorded: "one", info: status("one", metav1.ConditionTrue), want: true},
		"another cluster, accepted":    {name: "seen", recorded: "one", info: status("two", metav1.ConditionTrue)},
	} {
		c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: tc.name}}
		if tc.recorded != "" {
			c.Annotations = map[string]string{hubv1.AnnotationID: tc.recorded}
		}
		if rival, isKnown, err := r.of(t.Context(), c, tc.info); isKnown != tc.want || rival != "" || err != nil {
			t.Errorf("%s: known is %t, want %t; rival %q, error %v", what, isKnown, tc.want, rival, err)
		}
	}
}

// The Clusters of an identity are reconciled when one of them gets or loses it.
func TestRivals_Change(t *testing.T) {
	t.Parallel()
	var r rivals
	changed := r.changed()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(queue.ShutDown)
	of := func(name, id string) *hubv1.Cluster {
		return &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{hubv1.AnnotationID: id}}}
	}
	expect := func(what string, want ...string) {
		t.Helper()
		var names []string
		for queue.Len() > 0 {
			one, _ := queue.Get()
			queue.Done(one)
			names = append(names, one.Name)
		}
		slices.Sort(names)
		testkit.Equal(t, names, want, what)
	}
	update := func(before, after string) {
		changed.Update(t.Context(), event.UpdateEvent{ObjectOld: of("b", before), ObjectNew: of("b", after)}, queue)
	}
	changed.Create(t.Context(), event.CreateEvent{Object: of("a", "one")}, queue)
	expect("the first one", "a")
	changed.Create(t.Context(), event.CreateEvent{Object: of("b", "")}, queue)
	expect("one without an identity")
	update("", "one")
	expect("it gets the identity of another one", "a", "b")
	update("one", "one")
	expect("it keeps it")
	update("one", "two")
	expect("it is another cluster", "a", "b")
	update("two", "one")
	expect("it is the same cluster again", "a", "b")
	changed.Delete(t.Context(), event.DeleteEvent{Object: of("b", "one")}, queue)
	expect("it is gone", "a")
}
