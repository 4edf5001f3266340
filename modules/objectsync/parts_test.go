// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// A cluster that serves a kind in other versions only, with another scope, or under another name in URLs, lacks what the rule needs.
func TestEntry_Mapping(t *testing.T) {
	t.Parallel()
	v1 := schema.GroupVersion{Group: "example.com", Version: "v1"}
	served := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1})
	served.Add(v1.WithKind("Order"), meta.RESTScopeNamespace)
	served.Add(v1.WithKind("Region"), meta.RESTScopeRoot)
	for name, c := range map[string]struct {
		kind       hubv1.SyncKind
		namespaces []string
		want       []hubv1.SyncProblemReason
	}{
		"served":                     {hubv1.SyncKind{APIVersion: "example.com/v1", Kind: "Order"}, []string{"shop"}, nil},
		"not served":                 {hubv1.SyncKind{APIVersion: "example.com/v1", Kind: "Invoice"}, []string{"shop"}, []hubv1.SyncProblemReason{hubv1.SyncKindMissing}},
		"another version":            {hubv1.SyncKind{APIVersion: "example.com/v2", Kind: "Order"}, []string{"shop"}, []hubv1.SyncProblemReason{hubv1.SyncVersionMissing}},
		"no namespaces in the rule":  {hubv1.SyncKind{APIVersion: "example.com/v1", Kind: "Order"}, nil, []hubv1.SyncProblemReason{hubv1.SyncScopeDiffers}},
		"no namespaces of the kind":  {hubv1.SyncKind{APIVersion: "example.com/v1", Kind: "Region"}, []string{"shop"}, []hubv1.SyncProblemReason{hubv1.SyncScopeDiffers}},
		"another resource":           {hubv1.SyncKind{APIVersion: "example.com/v1", Kind: "Order", Resource: "secrets"}, []string{"shop"}, []hubv1.SyncProblemReason{hubv1.SyncKindMissing}},
		"the resource that it is":    {hubv1.SyncKind{APIVersion: "example.com/v1", Kind: "Order", Resource: "orders"}, []string{"shop"}, nil},
		"another version, elsewhere": {hubv1.SyncKind{APIVersion: "other.example.com/v1", Kind: "Order"}, []string{"shop"}, []hubv1.SyncProblemReason{hubv1.SyncKindMissing}},
	} {
		found := problems{}
		e := &entry{Rule: rules.Rule{SyncRuleSpec: hubv1.SyncRuleSpec{Kind: c.kind, Namespaces: hubv1.SyncNamespaces{Names: c.namespaces}}}}
		mapping, err := e.mapping(served, inRemote, found)
		testkit.NoError(t, err, name)
		if got := slices.Collect(maps.Keys(found)); !slices.Equal(got, c.want) || (mapping == nil) != (len(c.want) > 0) {
			t.Errorf("%s: got %v, %v, want %v", name, mapping, found, c.want)
		}
	}
}

// An informer of a remote that no rule needs ends after a minute, and not before.
func TestEngine_EndUnneeded(t *testing.T) {
	t.Parallel()
	cluster := fleettest.Cluster(t, "remote")
	informers, err := cache.New(cluster.Config(), cache.Options{ReaderFailOnMissingInformer: true})
	testkit.Must(t, err)
	testkit.Background(t, informers.Start)
	e := newEngine(Params{Shared: newShared(usual())})
	e.params.Cache = informers
	object := emptyOf(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	runs := func() bool {
		key := client.ObjectKey{Namespace: "default", Name: "none"}
		var missing *cache.ErrResourceNotCached
		return !errors.As(informers.Get(t.Context(), key, object), &missing)
	}
	testkit.Must(t, testkit.Err(informers.GetInformer(t.Context(), object)))
	left, one := time.Now(), &entry{}
	of := &feed{object: object, members: map[*entry]*member{one: nil}}
	of.ctx, of.cancel = context.WithCancel(t.Context())
	e.feeds[keyOf(object)] = of
	tidy := func(at time.Duration) {
		e.endUnneeded(t.Context(), left.Add(at))
		e.endUnneeded(t.Context(), left.Add(at)) // Its handler has ended.
	}
	tidy(time.Hour)
	testkit.Equal(t, runs(), true, "while an entry follows it")
	delete(of.members, one)
	of.left = left
	tidy(59 * time.Second)
	testkit.Equal(t, runs(), true, "before a minute has passed")
	tidy(time.Minute)
	testkit.Equal(t, runs(), false, "after a minute")
}

// Promise: without a rule the module watches nothing, needs no permission and exports no metric in a remote.
func TestEngine_WithoutRules(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- newEngine(Params{Shared: newShared(usual())}).Start(ctx) }() // It has no client.
	cancel()
	testkit.NoError(t, <-ended)
}

// Held names how many of how many copies, and the annotation that allows it.
func TestStanding_Held(t *testing.T) {
	t.Parallel()
	s := standing{rule: ruleOfConfigs(), replicas: []hubv1.SyncReplica{{ObservedGeneration: 7, Problems: []hubv1.SyncProblem{
		{Cluster: "edge", Reason: hubv1.SyncHeld, Object: "15 of 30 copies, as of shop/a"},
		{Cluster: "other", Reason: hubv1.SyncConflict, Object: "shop/b"},
	}}}}
	s.rule.Generation = 7
	s.sum()
	s.status()
	held := meta.FindStatusCondition(s.rule.Status.Conditions, hubv1.ConditionHeld)
	if held == nil {
		t.Fatal("there is no condition")
	}
	for _, want := range []string{"edge: 15 of 30 copies, as of shop/a", "kubectl annotate syncrule configs " + hubv1.AnnotationAllowHeld + "=7 --overwrite"} {
		testkit.Has(t, held.Message, want)
	}
	s.problems = nil
	s.status()
	testkit.Equal(t, meta.FindStatusCondition(s.rule.Status.Conditions, hubv1.ConditionHeld), nil, "when nothing is held")
}

// What the operator does not allow is in the conditions, with the reason NotAllowed.
func TestStanding_NotAllowed(t *testing.T) {
	t.Parallel()
	s := standing{rule: ruleOfConfigs(), invalid: fmt.Errorf("%w: the kind ConfigMap", rules.ErrNotAllowed)}
	s.sum()
	s.status()
	for condition, want := range map[string]metav1.ConditionStatus{
		hubv1.ConditionValid: metav1.ConditionFalse, hubv1.ConditionReady: metav1.ConditionFalse, hubv1.ConditionStalled: metav1.ConditionTrue,
	} {
		c := meta.FindStatusCondition(s.rule.Status.Conditions, condition)
		if c == nil || c.Status != want || c.Reason != hubv1.ReasonNotAllowed || !strings.Contains(c.Message, "the kind ConfigMap") {
			t.Errorf("%s is %+v", condition, c)
		}
	}
}

// The end of a rule waits for remotes that respond, for ten minutes.
func TestStanding_MayEnd(t *testing.T) {
	t.Parallel()
	deleted := time.Now()
	responds := &hubv1.Cluster{}
	responds.Status.Conditions = []metav1.Condition{{Type: hubv1.ConditionReachable, Status: metav1.ConditionTrue}}
	s := standing{rule: ruleOfConfigs(), selected: []*hubv1.Cluster{responds}}
	s.rule.DeletionTimestamp = &metav1.Time{Time: deleted}
	testkit.Equal(t, s.mayEnd(deleted.Add(endWithin-time.Second)), false, "before ten minutes have passed")
	testkit.Equal(t, s.mayEnd(deleted.Add(endWithin)), true, "after ten minutes")
	s.selected = nil
	testkit.Equal(t, s.mayEnd(deleted), true, "when all remotes have ended it")
}

// A Cluster remembers 64 rules that have ended without it: the oldest one is forgotten.
func TestWithRemains(t *testing.T) {
	t.Parallel()
	var all, forgotten []hubv1.SyncRemains
	for i := range hubv1.MaxRemains {
		all, forgotten = withRemains(all, hubv1.SyncRemains{Rule: fmt.Sprint("rule-", i)})
		testkit.Equal(t, len(forgotten), 0, i)
	}
	all, forgotten = withRemains(all, hubv1.SyncRemains{Rule: "last"})
	testkit.Equal(t, len(all), hubv1.MaxRemains)
	testkit.Equal(t, all[0].Rule+" "+all[hubv1.MaxRemains-1].Rule+" "+forgotten[0].Rule, "rule-1 last rule-0")
}

// What a reconcile reports is a problem of the rule, as docs/conditions.md lists them, until the object is in step.
func TestEntry_Report(t *testing.T) {
	t.Parallel()
	for want, o := range map[hubv1.SyncProblemReason]syncer.Outcome{
		hubv1.SyncConflict:         {Reason: syncer.ReasonNameConflict},
		hubv1.SyncContended:        {Reason: syncer.ReasonContended},
		hubv1.SyncRejected:         {Reason: syncer.ReasonRejected},
		hubv1.SyncNamespaceMissing: {Reason: syncer.ReasonNamespaceMissing},
		hubv1.SyncFieldNotDeclared: {Reason: syncer.ReasonUndeclared},
		hubv1.SyncOverLimit:        {Reason: reasonOverLimit},
		hubv1.SyncPatchFailed:      {Reason: rules.ReasonPatchFailed},
		hubv1.SyncHeld:             {Err: &deletes.HeldError{Err: errors.New("beyond a limit")}},
	} {
		one := testEntry(t)
		o.Key = client.ObjectKey{Namespace: "shop", Name: "one"}
		one.report(o)
		testkit.Equal(t, slices.Collect(maps.Keys(one.trouble)), []hubv1.SyncProblemReason{want})
		one.report(syncer.Outcome{Key: o.Key, Err: errors.New("the connection was lost")})
		testkit.Equal(t, len(one.trouble), 1, "problems after an error that says nothing")
		one.report(syncer.Outcome{Key: o.Key, Selected: true})
		testkit.Equal(t, len(one.trouble), 0, "problems when it is in step")
	}
	testkit.Equal(t, reasonOf(syncer.Outcome{Reason: syncer.ReasonStatusReduced}), hubv1.SyncFieldNotDeclared)
}
