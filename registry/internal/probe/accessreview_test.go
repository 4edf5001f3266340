// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
)

// With spec.namespaces, a permission is missing if one of them does not grant it, whichever, and is named with that namespace.
func TestReviewer_InNamespaces(t *testing.T) {
	t.Parallel()
	verbs := map[string][]string{"first": {"list", "create"}, "second": {"list", "delete"}}
	r := Reviewer{Post: func(_ context.Context, review client.Object) error {
		if rules, ok := review.(*authorizationv1.SelfSubjectRulesReview); ok {
			rules.Status.ResourceRules = []authorizationv1.ResourceRule{{
				Verbs: verbs[rules.Spec.Namespace], APIGroups: []string{""}, Resources: []string{"configmaps"},
			}}
		}
		return nil // An access review, of what the rules do not grant, is denied.
	}}
	needs := func(verb string) machine.ModuleRules {
		return machine.ModuleRules{Module: verb + "s", Rules: []rbacv1.PolicyRule{
			{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
		}}
	}
	got, err := r.Missing(t.Context(), &machine.Questions{
		Namespaces: []string{"first", "second"},
		Rules:      []machine.ModuleRules{needs("list"), needs("create"), needs("delete"), needs("patch")},
	})
	must(t, err)
	want := map[string][]string{
		"creates": {"create configmaps in second"}, "deletes": {"delete configmaps in first"},
		"patchs": {"patch configmaps in first", "patch configmaps in second"},
	}
	testkit.Equal(t, got, want)
}
