// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
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
		From: hubv1.SyncFromHub, Kind: hubv1.SyncKind{APIVersion: "v1", Kind: "ConfigMap"}, To: hubv1.SyncTarget{Naming: hubv1.SyncMirror},
		Namespaces: hubv1.SyncNamespaces{Template: "tenant-{{cluster}}"},
		Objects:    hubv1.SyncObjects{Selector: &hubv1.LabelSelector{MatchLabels: map[string]hubv1.LabelValue{"order": "yes"}}},
	}}
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
	r := &releaser{kind: orders().GVK(), releasers: &releasers{}}
	r.params.Options.HubID = "ours"
	why, err := r.abandoned(t.Context(), &metav1.PartialObjectMetadata{}, orders().Finalizer(rules.Place{HubID: "theirs"}))
	if err != nil || !strings.Contains(why, "another hub") {
		t.Errorf("got %q, %v", why, err)
	}
}

// An object is released if the rule does not select it any longer, and its remote responds.
func TestUnselected(t *testing.T) {
	t.Parallel()
	selected := map[string]string{"order": "yes"}
	for name, c := range map[string]struct {
		reachable metav1.ConditionStatus
		labels    map[string]string
		deleted   time.Duration
		want      bool
	}{
		"selected":          {metav1.ConditionTrue, selected, 2 * time.Minute, false},
		"selected, away":    {metav1.ConditionFalse, selected, 1000 * time.Hour, false},
		"unselected":        {metav1.ConditionTrue, nil, 2 * time.Minute, true},
		"unselected lately": {metav1.ConditionTrue, nil, 0, false},
		"unselected, away":  {metav1.ConditionFalse, nil, 2 * time.Minute, false},
	} {
		cluster := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		cluster.Status.Conditions = []metav1.Condition{{Type: hubv1.ConditionReachable, Status: c.reachable}}
		deleted := metav1.NewTime(time.Now().Add(-c.deleted))
		obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "tenant-a", Name: "x", Labels: c.labels, DeletionTimestamp: &deleted,
		}}
		testkit.Equal(t, unselected(obj, orders(), cluster) != "", c.want, name)
	}
}
