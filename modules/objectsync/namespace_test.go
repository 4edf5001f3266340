// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// unreadable is a reader that fails.
type unreadable struct{ client.Reader }

var errRead = errors.New("the informer has no permission")

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errRead
}

// An object whose Namespace cannot be read is not taken for one that is not selected: the reconcile ends before its copy is
// deleted.
func TestNeedsNamespace(t *testing.T) {
	t.Parallel()
	r := &entry{Rule: rules.Rule{SyncRuleSpec: hubv1.SyncRuleSpec{From: hubv1.SyncFromRemote, Namespaces: hubv1.SyncNamespaces{
		Selector: &hubv1.LabelSelector{MatchLabels: map[string]hubv1.LabelValue{"a": "b"}},
	}}}}
	r.namespaces, r.ctx = unreadable{}, t.Context()
	up := &unstructured.Unstructured{}
	testkit.NoError(t, testkit.Err(r.needsNamespace(t.Context(), up)), "an object without a namespace")
	up.SetNamespace("shop")
	testkit.ErrorIs(t, testkit.Err(r.needsNamespace(t.Context(), up)), errRead)
	r.Namespaces = hubv1.SyncNamespaces{Names: []string{"shop"}}
	testkit.NoError(t, testkit.Err(r.needsNamespace(t.Context(), up)), "a rule that names its namespaces")
}

// reading is a client that reads one rule.
type reading struct {
	client.Client
	rule *hubv1.SyncRule
}

func (r *reading) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, ok := into.(*hubv1.SyncRule)
	if !ok || r.rule == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	r.rule.DeepCopyInto(found)
	return nil
}

// Before a copy is given up for an edit, the rule is read: where it is not the one that the app follows, and for a moment after an edit,
// nothing is deleted. The annotation of the condition Held is evidence for its generation only.
func TestEntry_GiveUp(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(e *entry, rule *hubv1.SyncRule)
		waits  bool
		edited bool
		proof  bool
	}{
		"as it is":              {func(*entry, *hubv1.SyncRule) {}, false, false, false},
		"allowed":               {func(e *entry, _ *hubv1.SyncRule) { e.allow(1) }, false, false, true},
		"another one allowed":   {func(e *entry, _ *hubv1.SyncRule) { e.allow(2) }, false, false, false},
		"edited a moment ago":   {func(e *entry, _ *hubv1.SyncRule) { e.began = time.Now() }, true, false, false},
		"not all seen":          {func(e *entry, _ *hubv1.SyncRule) { e.joined = false }, true, false, false},
		"edited since":          {func(_ *entry, r *hubv1.SyncRule) { r.Generation = 2 }, false, true, false},
		"made again":            {func(_ *entry, r *hubv1.SyncRule) { r.UID = "2" }, false, true, false},
		"being deleted":         {func(_ *entry, r *hubv1.SyncRule) { r.DeletionTimestamp = &now }, false, true, false},
		"selected again":        {func(e *entry, _ *hubv1.SyncRule) { e.drains = true }, false, true, false},
		"missing, never ending": {func(e *entry, _ *hubv1.SyncRule) { e.params.HubClient = &reading{} }, false, true, false},
	} {
		one, rule := testEntry(t), &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", Generation: 1}}
		one.engine.shared, one.began, one.joined = newShared(usual()), time.Now().Add(-time.Minute), true
		one.params.HubClient = &reading{rule: rule}
		c.change(one, rule)
		ctx, wait, err := one.giveUp(t.Context())
		_, proven := deletes.EvidenceOf(ctx)
		if wait > 0 != c.waits || errors.Is(err, errEdited) != c.edited || proven != c.proof {
			t.Errorf("%s: waits for %s, %v, evidence is %t", name, wait, err, proven)
		}
	}
}
