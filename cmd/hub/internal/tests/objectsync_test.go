// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/objectsync"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// The last override that applies replaces the rules, and one without rules changes nothing.
func TestConfig_For(t *testing.T) {
	t.Parallel()
	over := func(label, config string) moduleconfig.Override {
		return moduleconfig.Override{Selector: metav1.LabelSelector{MatchLabels: map[string]string{label: "1"}}, Config: []byte(config)}
	}
	c, err := objectsync.ConfigOf([]moduleconfig.Config{{Name: "other"}, {
		Name: objectsync.Module, Config: []byte(`{"rules":[{"name":"a"},{"name":"b"}]}`),
		Overrides: []moduleconfig.Override{
			over("one", `{"rules":[{"name":"c"}]}`), over("limit", `{"limits":{"objects":7}}`), over("none", `{"rules":[]}`),
		},
	}})
	must(t, err)
	for label, want := range map[string][]string{"": {"a", "b"}, "one": {"c"}, "limit": {"a", "b"}, "none": nil} {
		var got []string
		for _, r := range c.For(map[string]string{label: "1"}) {
			got = append(got, r.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("label %q: %s", label, diff)
		}
	}
	if !c.Has("c") || c.Has("d") {
		t.Errorf("the rules are %v", c.Names())
	}
}

// Count tells copies, missing copies, conflicts and extra copies apart, in both directions; names are translated both ways.
func TestCount(t *testing.T) {
	t.Parallel()
	s := newTwoClusters(t, pull(), push())
	whole, missing, taken, gone := s.original(s.hub, "source", "whole"), s.original(s.hub, "source", "missing"),
		s.original(s.hub, "source", "taken"), s.original(s.hub, "source", "gone")
	s.create(s.remote, copyOf(t, pull(), edge, whole))
	s.create(s.remote, copyOf(t, pull(), edge, gone))
	must(t, s.hub.Delete(t.Context(), gone))
	foreign := copyOf(t, pull(), edge, taken)
	foreign.Labels, foreign.Annotations = nil, nil
	s.create(s.remote, foreign)
	s.create(s.hub, copyOf(t, push(), edge, s.original(s.remote, "source", "whole")))

	all, err := s.fleet.Count(t.Context(), objectsync.Scope{})
	must(t, err)
	var got []objectsync.Count
	for _, one := range all {
		got = append(got, objectsync.Count{
			Cluster: one.Rule.Name, Originals: one.Originals, Copies: one.Copies, Missing: one.Missing,
			Conflicts: one.Conflicts, Extra: one.Extra, Names: one.Names, Err: one.Err,
		})
	}
	want := []objectsync.Count{
		{Cluster: "pull", Originals: 3, Copies: 1, Missing: 2, Conflicts: 1, Extra: 1, Names: []string{"target/" + foreign.Name}},
		{Cluster: "push", Originals: 1, Copies: 1},
	}
	testkit.Equal(t, got, want, "the counts")
	testkit.ErrorIs(t, testkit.Err(s.fleet.Count(t.Context(), objectsync.Scope{Rules: []string{"nothing"}})), objectsync.ErrNoRule, "an unknown rule")

	name := objectsync.Name{Rule: "pull", Cluster: edge, Object: "missing"}
	copies, err := s.fleet.Copies(t.Context(), name)
	must(t, err)
	if want := client.ObjectKeyFromObject(copyOf(t, pull(), edge, missing)); copies[0] != want {
		t.Errorf("the copy of %s is %s, want %s", name.Object, copies[0], want)
	}
	name.Object = client.ObjectKeyFromObject(copyOf(t, pull(), edge, whole)).String()
	if original, err := s.fleet.Original(t.Context(), name); err != nil || original.String() != "source/whole" {
		t.Errorf("the original of %s is %s: %v", name.Object, original, err)
	}
	name.Object = foreign.Name
	testkit.ErrorIs(t, testkit.Err(s.fleet.Original(t.Context(), name)), objectsync.ErrNoCopy, "the original of an object that is not a copy")
	countAway(t, s)
}

// countAway checks that a remote that is away has an error in its counts, and does not keep the other remotes from being counted.
func countAway(t *testing.T, s *twoClusters) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	s.create(s.hub, &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "away"},
		Spec: hubv1.ClusterSpec{
			Server: "https://" + address, KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: edge, Key: "kubeconfig"},
		},
	})
	all, err := s.fleet.Count(t.Context(), objectsync.Scope{Rules: []string{"pull"}})
	must(t, err)
	if len(all) != 2 || all[0].Err == nil || all[1].Err != nil {
		t.Errorf("the counts are %+v", all)
	}
}

// Prune deletes the copies of a removed rule in the hub and in remotes, and no other object: none of another rule, none without
// marks, and none that was made from a copy together with its marks. It removes the finalizers that the rule has left.
func TestPrune(t *testing.T) {
	t.Parallel()
	s := newTwoClusters(t, tenants())
	original := s.original(s.hub, "source", "one")
	copied := copyOf(t, pull(), edge, original)
	s.create(s.remote, copied)
	other := copyOf(t, tenants(), edge, s.original(s.hub, "for-edge", "two"))
	s.create(s.remote, other)
	stolen := copyOf(t, pull(), edge, original)
	stolen.Name = "stolen"
	s.create(s.remote, stolen)
	labelled := copyOf(t, pull(), edge, original)
	labelled.Name, labelled.Annotations = "labelled", nil
	s.create(s.remote, labelled)
	kind := copyOf(t, pull(), edge, original)
	s.create(s.remote, &corev1.Secret{ObjectMeta: kind.ObjectMeta}) // its marks are of a ConfigMap
	gone := push()
	gone.Name = "pull"
	s.create(s.hub, copyOf(t, gone, edge, original))
	s.create(s.hub, copyOf(t, gone, "deleted-cluster", original))

	elsewhere := rules.Place{HubID: "another hub", Cluster: edge}
	held := []*corev1.ConfigMap{
		s.original(s.hub, "source", "held", pull().Finalizer(at(edge)), tenants().Finalizer(at(edge))),
		s.original(s.hub, "source", "restored", pull().Finalizer(elsewhere)),
		s.original(s.remote, "for-edge", "held", gone.Finalizer(at(edge)), gone.Finalizer(elsewhere)),
	}
	expectFinalizers := func(want ...int) {
		t.Helper()
		for i, in := range []*access.Cluster{s.hub, s.hub, s.remote} {
			must(t, in.Get(t.Context(), client.ObjectKeyFromObject(held[i]), held[i]))
			if len(held[i].Finalizers) != want[i] {
				t.Errorf("%s has the finalizers %v, want %d", held[i].Name, held[i].Finalizers, want[i])
			}
		}
	}

	out, text := terminal()
	prune := objectsync.Prune{Fleet: s.fleet, Terminal: out, Rule: "tenants", Yes: true}
	testkit.ErrorIs(t, testkit.Err(prune.Run(t.Context())), objectsync.ErrConfigured, "a rule of the configuration")
	prune.Rule, prune.DryRun = "pull", true
	if n, err := prune.Run(t.Context()); err != nil || n != 2 || len(s.names(s.remote, "target")) != 4 {
		t.Errorf("dry run: %d, %v, %s", n, err, text)
	}
	prune.DryRun, prune.Yes = false, false
	if _, err := prune.Run(t.Context()); err == nil || len(s.names(s.remote, "target")) != 4 {
		t.Errorf("without confirmation: %v", err)
	}
	expectFinalizers(2, 1, 2)
	prune.Yes = true
	if n, err := prune.Run(t.Context()); err != nil || n != 2 {
		t.Errorf("prune: %d, %v, %s", n, err, text)
	}
	expectFinalizers(1, 0, 1) // those of another rule and of another hub stay
	want := []string{"labelled", "stolen", other.Name}
	slices.Sort(want)
	testkit.Equal(t, s.names(s.remote, "target"), want, "the remote")
	if !strings.Contains(text.String(), "3 objects have the label of the rule and the marks of other objects") {
		t.Errorf("the objects that stay are not reported: %s", text)
	}
	if left := s.names(s.hub, "target"); len(left) != 1 {
		t.Errorf("the hub has %v", left)
	}
	prune.Clusters, prune.Kinds = []string{"deleted-cluster"}, []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap")}
	if n, err := prune.Run(t.Context()); err != nil || n != 1 || len(s.names(s.hub, "target")) != 0 {
		t.Errorf("prune for a Cluster that was deleted: %d, %v", n, err)
	}
	var secret corev1.Secret
	must(t, s.remote.Get(t.Context(), client.ObjectKeyFromObject(copied), &secret))
}

// Release removes the finalizer of the rule from objects that are being deleted, if the remote is away, and keeps finalizers of others.
func TestRelease(t *testing.T) {
	t.Parallel()
	s := newTwoClusters(t, tenants())
	const others = "example.com/hold"
	finalizer := tenants().Finalizer(at(edge))
	one, both, living := s.original(s.hub, "for-edge", "one", finalizer), s.original(s.hub, "for-edge", "both", finalizer, others),
		s.original(s.hub, "for-edge", "living", finalizer)
	must(t, errors.Join(s.hub.Delete(t.Context(), one), s.hub.Delete(t.Context(), both)))
	setReachable(t, s.hub, metav1.ConditionTrue)

	out, text := terminal()
	release := func(change func(*objectsync.Release)) error {
		r := &objectsync.Release{Fleet: s.fleet, Terminal: out, Rule: "tenants", Cluster: edge, Yes: true}
		change(r)
		if err := r.Prepare(t.Context()); err != nil {
			return err
		}
		return r.Run(t.Context())
	}
	testkit.ErrorIs(t, release(func(*objectsync.Release) {}), objectsync.ErrNotAway, "a remote that responds")
	setReachable(t, s.hub, metav1.ConditionFalse)
	for _, name := range []string{"living", "source/one"} {
		if err := release(func(r *objectsync.Release) { r.Objects = []string{name} }); err == nil {
			t.Errorf("%s is released", name)
		}
	}
	must(t, release(func(r *objectsync.Release) { r.DryRun = true }))
	if left := s.names(s.hub, "for-edge"); len(left) != 3 {
		t.Errorf("a dry run leaves %v", left)
	}
	must(t, release(func(*objectsync.Release) {}))
	if diff := cmp.Diff([]string{"both", "living"}, s.names(s.hub, "for-edge")); diff != "" {
		t.Errorf("the hub has: %s, %s", diff, text)
	}
	must(t, s.hub.Get(t.Context(), client.ObjectKeyFromObject(both), both))
	must(t, s.hub.Get(t.Context(), client.ObjectKeyFromObject(living), living))
	if diff := cmp.Diff([][]string{{others}, {finalizer}}, [][]string{both.Finalizers, living.Finalizers}); diff != "" {
		t.Errorf("the finalizers: %s", diff)
	}
	var events corev1.EventList
	must(t, s.hub.List(t.Context(), &events, client.InNamespace("for-edge")))
	if len(events.Items) != 2 || events.Items[0].Reason != "CopyLeftBehind" {
		t.Errorf("the events are %+v", events.Items)
	}

	// The rule was removed.
	must(t, s.hub.Delete(t.Context(), living))
	s.fleet.Config = objectsync.Config{}
	testkit.ErrorIs(t, release(func(*objectsync.Release) {}), objectsync.ErrNoRule, "a removed rule without a kind")
	must(t, release(func(r *objectsync.Release) {
		r.Kind, r.Namespace = corev1.SchemeGroupVersion.WithKind("ConfigMap"), "for-edge"
	}))
	if diff := cmp.Diff([]string{"both"}, s.names(s.hub, "for-edge")); diff != "" {
		t.Errorf("the hub has: %s", diff)
	}
}

func setReachable(t *testing.T, hub *access.Cluster, status metav1.ConditionStatus) {
	t.Helper()
	var c hubv1.Cluster
	must(t, hub.Get(t.Context(), client.ObjectKey{Name: edge}, &c))
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: hubv1.ConditionReachable, Status: status, Reason: "Test", Message: "test",
	})
	must(t, hub.Status().Update(t.Context(), &c))
}

// Diff names what a rule would write, without writing it.
func TestDiff(t *testing.T) {
	t.Parallel()
	r := pull()
	r.Exclude, r.Adopt = []string{"/data/theirs"}, rules.IfEqual
	s := newTwoClusters(t, r)
	content := map[string]string{"k": "new", "theirs": "not copied"}
	names := map[string]string{}
	for name, copied := range map[string]func(*corev1.ConfigMap){
		"same":    func(c *corev1.ConfigMap) { c.Data = map[string]string{"k": "new"} },
		"changed": func(c *corev1.ConfigMap) { c.Data = map[string]string{"k": "old", "theirs": "kept"} },
		"fixed":   func(c *corev1.ConfigMap) { c.Data, c.Immutable = map[string]string{"k": "old"}, new(true) },
		"again":   func(c *corev1.ConfigMap) { c.Annotations[r.Identity(at(edge)).Keys().ObjectUID] = "of-the-one-before" },
		"equal":   func(c *corev1.ConfigMap) { c.Labels, c.Annotations, c.Data = nil, nil, content },
		"blocked": func(c *corev1.ConfigMap) { c.Labels, c.Annotations = nil, nil },
		"gone":    func(*corev1.ConfigMap) {},
		"new":     nil,
	} {
		original := s.original(s.hub, "source", name)
		original.Data = content
		must(t, s.hub.Update(t.Context(), original))
		made := copyOf(t, r, edge, original)
		names[name] = "target/" + made.Name
		if copied != nil {
			copied(made)
			s.create(s.remote, made)
		}
		if name == "gone" {
			must(t, s.hub.Delete(t.Context(), original))
		}
	}
	before := s.versions()
	all, err := s.fleet.Diff(t.Context(), objectsync.Scope{})
	must(t, err)
	got := map[string]string{}
	for _, c := range all {
		must(t, c.Err)
		got[c.Object] = strings.TrimSpace(string(c.Action) + " " + c.Reason + " " + strings.Join(c.Fields, " "))
	}
	want := map[string]string{
		names["changed"]: "Update  data.k", names["again"]: "Replace", names["gone"]: "Delete", names["blocked"]: "Blocked",
		names["new"]: "Create", names["equal"]: "Adopt", names["fixed"]: "Rejected Invalid data",
	}
	testkit.Equal(t, got, want, "Diff")
	if diff := cmp.Diff(before, s.versions()); diff != "" {
		t.Errorf("Diff has written: -before +after\n%s", diff)
	}
}
