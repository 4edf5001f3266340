// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestWithAdvice(t *testing.T) {
	t.Parallel()
	for problem, want := range map[state.Problem]string{
		{}: "no",
		{Kind: state.ProblemIdentityChanged, ClusterID: "uid-2"}: "no; correct the Secret, or accept the new cluster with the annotation clusterfx.dev/accept-id=uid-2",
		{Kind: state.ProblemIsHub}:                               "no; if that is intended, set the annotation clusterfx.dev/allow-hub=true, or start the hub with --allow-hub-as-remote",
		{Kind: state.ProblemTooManyObjects}:                      "no; raise --max-objects-per-cluster of the hub, limit spec.namespaces of the Cluster, or have the module filter what it caches or watch metadata only",
		{Kind: state.ProblemTooManyBytes}:                        "no; raise --max-cache-bytes-per-cluster of the hub, limit spec.namespaces of the Cluster, or have the module filter what it caches or watch metadata only",
		{Kind: state.ProblemResponseTooLarge}:                    "no; raise --max-cache-bytes-per-cluster of the hub, or limit spec.namespaces of the Cluster",
		{Kind: state.ProblemUndeclaredRule}:                      "no; add it there and run hub register again",
		{Kind: state.ProblemUndeclaredHubRule}:                   "no; add it there and run hub install again",
	} {
		testkit.Equal(t, clusterstatus.WithAdvice("no", problem), want, problem)
	}
	const sentences = "The server sends too much. Raise --max-cache-bytes-per-cluster of the hub, or limit spec.namespaces of the Cluster."
	if got := clusterstatus.WithAdvice("The server sends too much.", state.Problem{Kind: state.ProblemResponseTooLarge}); got != sentences {
		t.Errorf("after a sentence: got %q, want %q", got, sentences)
	}
}

// The advice on a problem is in each condition that repeats the problem, and in the status of a module and of a
// controller.
func TestStatusOf_Advises(t *testing.T) {
	t.Parallel()
	moved := state.Problem{Kind: state.ProblemIdentityChanged, ClusterID: "uid-2"}
	full := state.Problem{Kind: state.ProblemTooManyObjects}
	info := but(allWell, func(i *registry.Status) {
		i.Identity = facet(metav1.ConditionFalse, hubv1.ReasonIdentityChanged)
		i.Identity.Problem = moved
		i.Modules = []state.ModuleStatus{{Name: "one", State: state.ModuleFailed, Message: "too many", Problem: full, Controllers: []state.ControllerStatus{
			{Name: "one", State: state.ModuleWaiting, Message: "denied", Problem: state.Problem{Kind: state.ProblemUndeclaredRule}},
		}}}
	})
	status := clusterstatus.Of(&hubv1.Cluster{}, good, info)
	for _, kind := range []string{hubv1.ConditionReady, hubv1.ConditionIdentityConfirmed, hubv1.ConditionStalled} {
		want := clusterstatus.WithAdvice(info.Identity.Message, moved)
		if c := meta.FindStatusCondition(status.Conditions, kind); c == nil || c.Message != want {
			t.Errorf("%s is %+v, want the message %q", kind, c, want)
		}
	}
	one := status.Modules[0]
	undeclared := state.Problem{Kind: state.ProblemUndeclaredRule}
	if one.Message != clusterstatus.WithAdvice("too many", full) || one.Controllers[0].Message != clusterstatus.WithAdvice("denied", undeclared) {
		t.Errorf("got module %+v, want advice for the module and its controller", one)
	}
}
