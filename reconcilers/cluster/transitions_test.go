// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry"
)

// A detail that a change of Ready includes has no second event; any other detail has an event.
func TestTransitions_OfDetails(t *testing.T) {
	t.Parallel()
	status := func(change func(*registry.Status), modules ...hubv1.ModuleStatus) hubv1.ClusterStatus {
		one := clusterstatus.Of(&hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, good.Credentials, but(allWell, change))
		one.Modules = modules
		return one
	}
	nothing := func(*registry.Status) {}
	app := func(status metav1.ConditionStatus, reason string) func(*registry.Status) {
		return func(i *registry.Status) { i.App = facet(status, reason) }
	}
	authorized := func(status metav1.ConditionStatus, reason string) func(*registry.Status) {
		return func(i *registry.Status) { i.Authorized = facet(status, reason) }
	}
	module := func(name string, state hubv1.ModuleState, reason string) hubv1.ModuleStatus {
		return hubv1.ModuleStatus{Name: name, State: state, Reason: reason, Message: "why"}
	}
	a, b := module("a", hubv1.ModuleRunning, ""), module("b", hubv1.ModuleRunning, "")
	failedA, failedB := module("a", hubv1.ModuleFailed, "ModuleFailed"), module("b", hubv1.ModuleFailed, "ModuleFailed")
	waitingB := module("b", hubv1.ModuleWaiting, "APIMissing")
	because := func(module string) func(*registry.Status) {
		return func(i *registry.Status) {
			i.App = facet(metav1.ConditionFalse, hubv1.ReasonModuleFailed)
			i.App.Message = "module " + strconv.Quote(module) + ": oh"
		}
	}
	failed := because("a")
	paused := status(nothing)
	meta.SetStatusCondition(&paused.Conditions, metav1.Condition{
		Type: hubv1.ConditionReady, Status: metav1.ConditionUnknown, Reason: hubv1.ReasonPaused,
	})
	for name, tc := range map[string]struct {
		before, after hubv1.ClusterStatus
		want          []string
	}{
		"a module fails":              {status(nothing, a, b), status(failed, failedA, b), []string{"Warning ModuleFailed"}},
		"another one fails after it":  {status(failed, failedA, b), status(because("b"), failedA, failedB), []string{"Warning ModuleFailed"}},
		"its state comes early":       {status(nothing, a, b), status(nothing, failedA, b), nil},
		"its state comes late":        {status(failed, a, b), status(failed, failedA, b), nil},
		"it fails on and on":          {status(failed, failedA, b), status(failed, failedA, b), nil},
		"all run again":               {status(failed, failedA, b), status(nothing, a, b), []string{"Normal Ready"}},
		"a module's API goes":         {status(nothing, a, b), status(nothing, a, waitingB), []string{"Warning APIMissing"}},
		"a module's API comes":        {status(nothing, a, waitingB), status(nothing, a, b), []string{"Normal ModuleRunning"}},
		"a new module waits":          {status(nothing, a), status(nothing, a, waitingB), nil},
		"a right is missing":          {status(nothing), status(authorized(metav1.ConditionFalse, hubv1.ReasonRightsMissing)), []string{"Warning RightsMissing"}},
		"the right is granted":        {status(authorized(metav1.ConditionFalse, hubv1.ReasonRightsMissing)), status(authorized(metav1.ConditionTrue, hubv1.ReasonAllowed)), []string{"Normal Allowed"}},
		"the app is quarantined":      {status(nothing), status(app(metav1.ConditionFalse, hubv1.ReasonQuarantined)), []string{"Warning Quarantined"}},
		"another app takes its place": {status(nothing), status(app(metav1.ConditionUnknown, hubv1.ReasonStarting)), nil},
		"the hub starts":              {status(nothing), status(func(i *registry.Status) { i.Reachable = facet(metav1.ConditionUnknown, hubv1.ReasonPending) }), nil},
		"it is resumed":               {paused, status(nothing), []string{"Normal Resumed", "Normal Ready"}},
		"it is paused":                {status(nothing), paused, []string{"Normal Paused"}},
		"a remote is back, but not its app": {
			status(func(i *registry.Status) { i.Reachable = facet(metav1.ConditionFalse, hubv1.ReasonTimedOut) }),
			status(app(metav1.ConditionUnknown, hubv1.ReasonStarting)),
			nil,
		},
		"a remote is back, and its app fails": {
			status(func(i *registry.Status) { i.Reachable = facet(metav1.ConditionFalse, hubv1.ReasonTimedOut) }),
			status(failed, failedA),
			[]string{"Warning ModuleFailed", "Normal ProbeSucceeded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, one := range transitions(tc.before, tc.after) {
				got = append(got, one.Type+" "+one.Reason)
			}
			testkit.Equal(t, got, tc.want)
		})
	}
}

// Each hold of deletes has one event, with its sentence and without names of objects, which may look like a hold.
func TestTransitions_OfHolds(t *testing.T) {
	t.Parallel()
	const one, grown = "hold q-pods-1: module q has deleted 20 pods", "hold q-pods-1: module q has deleted 20 pods and asks for more"
	const two, names = "hold q-jobs-2: module q has deleted 20 jobs", "q-pods-1 holds a/b; hold q-pods-9: a/c"
	status := func(reason, message string) hubv1.ClusterStatus {
		s := hubv1.ClusterStatus{ObservedGeneration: 1}
		if reason != "" {
			s.Conditions = []metav1.Condition{{Type: hubv1.ConditionDeletesHeld, Status: metav1.ConditionTrue, Reason: reason, Message: message}}
		}
		return s
	}
	const limit, store = hubv1.ReasonLimitExceeded, hubv1.ReasonStoreUnavailable
	for name, tc := range map[string]struct {
		before, after hubv1.ClusterStatus
		want          []string
	}{
		"a hold":              {status("", ""), status(limit, one+"; "+names), []string{one}},
		"two holds":           {status("", ""), status(limit, one+"; "+two+"; "+names), []string{two, one}},
		"it grows":            {status(limit, one+"; "+names), status(limit, grown+"; "+names), nil},
		"a second hold":       {status(limit, one+"; "+names), status(limit, grown+"; "+two+"; "+names), []string{two}},
		"one of two ends":     {status(limit, one+"; "+two), status(limit, two), nil},
		"another hold":        {status(limit, one), status(limit, two), []string{two}},
		"the end":             {status(limit, one), status("", ""), nil},
		"the store is away":   {status("", ""), status(store, "refused"), []string{"refused"}},
		"it stays away":       {status(store, "refused"), status(store, "refused again"), nil},
		"a hold after that":   {status(store, "refused"), status(limit, one), []string{one}},
		"no more than before": {status(limit, one+"; "+names), status(limit, one+"; "+names), nil},
	} {
		var got []string
		for _, e := range transitions(tc.before, tc.after) {
			if e.Type != "Warning" {
				t.Errorf("%s: an event of type %s", name, e.Type)
			}
			got = append(got, e.Note)
		}
		testkit.Equal(t, got, tc.want, name)
	}
}
