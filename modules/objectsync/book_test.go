// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// orders is a rule whose originals have a finalizer.
func orders() rules.Rule {
	return rules.Rule{Name: "orders", SyncRuleSpec: hubv1.SyncRuleSpec{
		From: rules.FromHub, Kind: rules.Kind{APIVersion: "v1", Kind: "ConfigMap"}, To: hubv1.SyncTarget{Naming: rules.Mirror},
		Namespaces: hubv1.SyncNamespaces{Template: "tenant-{{cluster}}"},
		Objects:    hubv1.SyncObjects{Selector: &hubv1.LabelSelector{MatchLabels: map[string]hubv1.LabelValue{"order": "yes"}}},
	}}
}

// bookOf returns a book in which clusters with the label tier: test are given up after two hours.
func bookOf(t *testing.T, abandonAfter string) book {
	t.Helper()
	b, err := newBook([]moduleconfig.Config{{
		Name: Name, Config: json.RawMessage(`{"abandonAfter": "` + abandonAfter + `"}`), Overrides: []moduleconfig.Override{
			{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "test"}}, Config: json.RawMessage(`{"abandonAfter": "2h"}`)},
		},
	}})
	testkit.Must(t, err)
	return b
}

// A Cluster runs the module if spec.modules names it, or, without spec.modules, if the configuration selects its labels.
func TestBook_Runs(t *testing.T) {
	t.Parallel()
	edge := map[string]string{"tier": "edge"}
	configured := func(selector *metav1.LabelSelector) book {
		b, err := newBook([]moduleconfig.Config{{Name: Name, Clusters: selector}})
		testkit.Must(t, err)
		return b
	}
	for name, c := range map[string]struct {
		book    book
		labels  map[string]string
		modules []string
		want    bool
	}{
		"without a configuration":     {configured(nil), edge, nil, true},
		"the Cluster asks":            {configured(nil), nil, []string{Name}, true},
		"the Cluster asks for others": {configured(&metav1.LabelSelector{}), nil, []string{"inventory"}, false},
		"all":                         {configured(&metav1.LabelSelector{}), nil, nil, true},
		"its labels":                  {configured(&metav1.LabelSelector{MatchLabels: edge}), edge, nil, true},
		"other labels":                {configured(&metav1.LabelSelector{MatchLabels: edge}), nil, nil, false},
	} {
		if got := c.book.runs(&hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}, Spec: hubv1.ClusterSpec{Modules: c.modules}}); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// The finalizer of another hub is removed: it was restored with the object into a new cluster.
func TestReleaser_AnotherHub(t *testing.T) {
	t.Parallel()
	r := &releaser{kind: orders().GVK(), releasers: &releasers{book: bookOf(t, "")}}
	r.params.Options.HubID = "ours"
	why, err := r.abandoned(t.Context(), []rules.Rule{orders()}, &metav1.PartialObjectMetadata{}, orders().Finalizer(rules.Place{HubID: "theirs"}))
	if err != nil || !strings.Contains(why, "another hub") {
		t.Errorf("got %q, %v", why, err)
	}
}

// An object is released if its cluster is away for too long, or has no such rule, or if the rule does not select the object.
func TestReleaser_Away(t *testing.T) {
	t.Parallel()
	cluster := func(status metav1.ConditionStatus, since time.Duration, labels map[string]string) *hubv1.Cluster {
		c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}}
		c.Status.Conditions = []metav1.Condition{{
			Type: hubv1.ConditionReachable, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Add(-since)),
		}}
		return c
	}
	selected := map[string]string{"order": "yes"}
	for name, c := range map[string]struct {
		cluster *hubv1.Cluster
		labels  map[string]string
		deleted time.Duration
		abandon string
		want    string
	}{
		"ready":             {cluster(metav1.ConditionTrue, 100*time.Hour, nil), selected, 0, "72h", ""},
		"away for a moment": {cluster(metav1.ConditionFalse, time.Hour, nil), selected, 0, "72h", ""},
		"away for too long": {cluster(metav1.ConditionFalse, 100*time.Hour, nil), selected, 0, "72h", "not reachable for 72h"},
		"paused":            {cluster(metav1.ConditionUnknown, 100*time.Hour, nil), selected, 0, "72h", "not reachable for 72h"},
		"by an override":    {cluster(metav1.ConditionFalse, 3*time.Hour, map[string]string{"tier": "test"}), selected, 0, "72h", "not reachable for 2h"},
		"never abandoned":   {cluster(metav1.ConditionFalse, 1000*time.Hour, nil), selected, 0, "", ""},
		"unselected":        {cluster(metav1.ConditionTrue, 0, nil), nil, 2 * time.Minute, "", "does not select"},
		"unselected lately": {cluster(metav1.ConditionTrue, 0, nil), nil, 0, "", ""},
		"unselected, away":  {cluster(metav1.ConditionFalse, time.Hour, nil), nil, 2 * time.Minute, "", ""},
	} {
		r := &releaser{kind: orders().GVK(), releasers: &releasers{book: bookOf(t, c.abandon)}}
		deleted := metav1.NewTime(time.Now().Add(-c.deleted))
		obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "tenant-a", Name: "x", Labels: c.labels, DeletionTimestamp: &deleted,
		}}
		got := r.away(obj, orders(), c.cluster)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
