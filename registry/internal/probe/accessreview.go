// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// absentNamespace exists nowhere: for it, an API server returns the rules that apply in all namespaces.
const absentNamespace = "clusterfx-asks-for-rules-everywhere"

// maxReviews in one preflight. Further permissions count as missing if the rules of the remote are complete, else as
// granted.
const maxReviews = 64

// maxRules of a remote are read. Each is compared with each permission.
const maxRules = 1000

const maxPermissionsNamed = 8

// Reviewer asks an API server for the permissions of its user. Post sends a review and decodes the response into it.
type Reviewer struct {
	Post func(ctx context.Context, review client.Object) error
}

// Missing returns the permissions that modules need and the credentials lack, by module. It requests all rules, once
// per namespace. An API server that does not authorize by RBAC alone leaves some out, so each permission that they do
// not cover gets an access review.
//
// With spec.namespaces, a cluster-scoped kind counts as granted by a RoleBinding, although that has no effect: the
// rules do not show which kinds have a namespace.
func (r Reviewer) Missing(ctx context.Context, q *machine.Questions) (map[string][]string, error) {
	namespaces := q.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	lacking, reviews := map[string][]string{}, maxReviews
	for _, namespace := range namespaces {
		granted, all, err := r.rulesIn(ctx, namespace)
		if err != nil {
			return nil, err
		}
		for _, m := range q.Rules {
			_, candidates := validation.Covers(granted, m.Rules)
			if !all {
				candidates = candidates[:min(len(candidates), reviews)]
			}
			missing, err := r.missing(ctx, namespace, candidates, &reviews)
			if err != nil {
				return nil, err
			}
			lacking[m.Module] = append(lacking[m.Module], missing...)
		}
	}
	for module, permissions := range lacking {
		if lacking[module] = Abbreviate(permissions); len(permissions) == 0 {
			delete(lacking, module)
		}
	}
	return lacking, nil
}

// Lacking returns the permissions of these that the user does not have, as an operator would ask for them.
func (r Reviewer) Lacking(ctx context.Context, of []rbac.NamespacedRules) ([]string, error) {
	const module = "asks"
	var lacking []string
	for _, part := range of {
		q := &machine.Questions{Rules: []machine.ModuleRules{{Module: module, Rules: part.Rules}}}
		if part.Namespace != "" {
			q.Namespaces = []string{part.Namespace}
		}
		missing, err := r.Missing(ctx, q)
		if err != nil {
			return nil, err
		}
		lacking = append(lacking, missing[module]...)
	}
	return Abbreviate(lacking), nil
}

// Abbreviate cuts a list of permissions to what a message has room for, and says how many it left out.
func Abbreviate(permissions []string) []string {
	if more := len(permissions) - maxPermissionsNamed; more > 0 {
		return append(permissions[:maxPermissionsNamed:maxPermissionsNamed], fmt.Sprintf("and %d more", more))
	}
	return permissions
}

// missing sends at most as many reviews as reviews allows, and subtracts them.
func (r Reviewer) missing(ctx context.Context, namespace string, candidates []rbacv1.PolicyRule, reviews *int) ([]string, error) {
	var missing []string
	for _, right := range rbac.RightsOf(candidates) {
		right.Namespace = namespace
		if *reviews > 0 {
			*reviews--
			allowed, err := r.allowed(ctx, right)
			if err != nil {
				return nil, err
			}
			if allowed {
				continue
			}
		}
		missing = append(missing, right.String())
	}
	return missing, nil
}

// rulesIn returns the rules of a namespace, or of all for "", and whether these are complete.
func (r Reviewer) rulesIn(ctx context.Context, namespace string) (rules []rbacv1.PolicyRule, all bool, err error) {
	review := &authorizationv1.SelfSubjectRulesReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectRulesReview"},
	}
	if review.Spec.Namespace = namespace; namespace == "" {
		review.Spec.Namespace = absentNamespace
	}
	if err := r.Post(ctx, review); err != nil {
		return nil, false, err
	}
	if len(review.Status.ResourceRules) > maxRules {
		review.Status.ResourceRules, review.Status.Incomplete = review.Status.ResourceRules[:maxRules], true
	}
	for _, rule := range review.Status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{
			Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
		})
	}
	for _, rule := range review.Status.NonResourceRules { // the rules of a RoleBinding are among them, and grant nothing
		if namespace != "" {
			break
		}
		rules = append(rules, rbacv1.PolicyRule{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
	}
	return rules, !review.Status.Incomplete, nil
}

func (r Reviewer) allowed(ctx context.Context, right rbac.Right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}, Spec: right.Review(),
	}
	err := r.Post(ctx, review)
	return review.Status.Allowed, err
}
