// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A hub reads its own writes until the cache has them.
func TestLatest(t *testing.T) {
	t.Parallel()
	at := func(version string) *hubv1.Cluster {
		return &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: version}}
	}
	var s seen
	expect := func(cached, want string) *hubv1.Cluster {
		t.Helper()
		got := s.latest(at(cached))
		if got.ResourceVersion != want {
			t.Errorf("with version %s in the cache: got %s, want %s", cached, got.ResourceVersion, want)
		}
		return got
	}
	expect("9", "9")
	s.written = at("10")
	expect("9", "10").Labels = map[string]string{"changed": "by the caller"}
	if got := expect("9", "10"); got.Labels != nil {
		t.Error("the caller has changed what is kept")
	}
	expect("10", "10")
	expect("9", "9") // It is kept no longer than it is needed.
	s.written = at("10")
	expect("11", "11")
	s.written = at("not a number")
	expect("9", "9")
}

// A hub that starts reconciles new Clusters after those that it knows.
func TestMemory_KnownClustersComeFirst(t *testing.T) {
	t.Parallel()
	known := func(name string) hubv1.Cluster {
		return hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{hubv1.AnnotationID: "id"}}}
	}
	fresh := hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "fresh"}}
	var m memory
	m.begin([]hubv1.Cluster{known("a"), fresh, known("b"), known("gone")}, metav1.Now().Time)
	a := known("a")
	for _, step := range []struct {
		looked string
		waits  bool
	}{{"fresh", true}, {"a", true}, {"a", true}, {"b", true}, {"gone", false}, {"c", false}} {
		s := m.of(step.looked)
		m.forget(s) // before the reconcile ends
		m.looked(s)
		if m.mustWait(&fresh) != step.waits || m.mustWait(&a) {
			t.Errorf("after %s: a new Cluster waits: %t, a known Cluster waits: %t", step.looked, m.mustWait(&fresh), m.mustWait(&a))
		}
	}
	if len(m.clusters) != 0 {
		t.Errorf("%d Clusters that are gone are remembered", len(m.clusters))
	}
}

// A reconcile that changes nothing posts nothing to the registry, unless the remote ends.
func TestEnsure_PostsOnce(t *testing.T) {
	t.Parallel()
	s := &slow{info: allWell}
	r := &reconciler{share: everything{}, remotes: s, suspects: noSuspects{}}
	c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{}}}
	found := good
	for _, step := range []struct {
		what   string
		change func()
		want   int
	}{
		{"it is new", func() {}, 1},
		{"nothing", func() {}, 1},
		{"a label", func() { c.Labels = map[string]string{"a": "b"} }, 2},
		{"an annotation, in place", func() { c.Annotations["a"] = "b" }, 3},
		{"the record of its identity", func() { c.Annotations[hubv1.AnnotationID] = "one" }, 4},
		{"the spec", func() { c.Generation++ }, 5},
		{"the Secret", func() { found.version = "2" }, 6},
		{"nothing", func() {}, 6},
		{"the registry has it no longer", func() { s.info.Revision = "" }, 7},
		{"the remote ends", func() { s.info.State = state.StateStopping }, 8},
	} {
		step.change()
		if runs, err := r.ensure(t.Context(), c, found, RoleRunner); err != nil {
			t.Fatal(runs, err)
		}
		if len(s.posted) != step.want {
			t.Errorf("%s: %d posts, want %d", step.what, len(s.posted), step.want)
		}
		s.takeUp()
	}
	s.err = registry.ErrClosed
	if runs, err := r.ensure(t.Context(), c, found, RoleRunner); runs.current || err != nil {
		t.Errorf("the end of the hub is reported as the state of the remote: %+v, %v", runs, err)
	}
}
