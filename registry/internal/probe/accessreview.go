// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
)

// nowhereNamespace is a namespace that no cluster has. Asked for the rules there, an API server tells those that
// hold everywhere.
const nowhereNamespace = "clusterfx-asks-for-rules-everywhere"

// maxReviews is how many single rights are asked for in one survey. The rest of a longer list is taken to be
// missing where the remote says that it has told all rules, and to be there where it says that it has not.
const maxReviews = 64

// maxRules is how many rules of a remote are looked at; each is compared with each right that a module needs.
const maxRules = 1000

// maxRightsNamed is how many missing rights of a module are named.
const maxRightsNamed = 8

// Reviewer asks an API server what its user may do. Post sends a review and decodes the response into it.
type Reviewer struct {
	Post func(ctx context.Context, path string, review client.Object) error
}

// Missing asks the remote which of the rules its credentials do not have, by module.
//
// It asks for the rules as a whole first, which is one request per namespace. API servers whose rights do
// not come from RBAC alone leave some out there, so that what is not among them is asked for right by right.
//
// With spec.namespaces, a right on a kind that has no namespace is taken to be granted where a RoleBinding
// grants it, which has no effect: the rules do not say what has a namespace.
func (l Reviewer) Missing(ctx context.Context, q *preflight.Questions) (map[string][]string, error) {
	namespaces := q.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	lacking, reviews := map[string][]string{}, maxReviews
	for _, namespace := range namespaces {
		granted, all, err := l.rulesIn(ctx, namespace)
		if err != nil {
			return nil, err
		}
		for _, m := range q.Rules {
			_, open := validation.Covers(granted, m.Rules)
			if !all {
				open = open[:min(len(open), reviews)]
			}
			missing, err := l.missing(ctx, namespace, open, &reviews)
			if err != nil {
				return nil, err
			}
			lacking[m.Module] = append(lacking[m.Module], missing...)
		}
	}
	for module, rights := range lacking {
		if lacking[module] = Abbreviate(rights); len(rights) == 0 {
			delete(lacking, module)
		}
	}
	return lacking, nil
}

// Abbreviate returns as many of some rights as are named.
func Abbreviate(rights []string) []string {
	if more := len(rights) - maxRightsNamed; more > 0 {
		return append(rights[:maxRightsNamed:maxRightsNamed], fmt.Sprintf("and %d more", more))
	}
	return rights
}

// missing returns which of some rights are not granted in a namespace. It asks for no more of them than
// reviews, and takes off what it has asked.
func (l Reviewer) missing(ctx context.Context, namespace string, open []rbacv1.PolicyRule, reviews *int) ([]string, error) {
	var missing []string
	for _, right := range open {
		if *reviews > 0 {
			*reviews--
			allowed, err := l.allowed(ctx, namespace, right)
			if err != nil {
				return nil, err
			}
			if allowed {
				continue
			}
		}
		missing = append(missing, DescribePermission(right, namespace))
	}
	return missing, nil
}

// rulesIn returns the rules that the API server tells for a namespace, or for all of them, and whether there are
// no others.
func (l Reviewer) rulesIn(ctx context.Context, namespace string) (rules []rbacv1.PolicyRule, all bool, err error) {
	review := &authorizationv1.SelfSubjectRulesReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectRulesReview"},
	}
	if review.Spec.Namespace = namespace; namespace == "" {
		review.Spec.Namespace = nowhereNamespace
	}
	if err := l.Post(ctx, "apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review); err != nil {
		return nil, false, err
	}
	if len(review.Status.ResourceRules) > maxRules {
		review.Status.ResourceRules, review.Status.Incomplete = review.Status.ResourceRules[:maxRules], true
	}
	for _, r := range review.Status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{
			Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames,
		})
	}
	for _, r := range review.Status.NonResourceRules { // those of a RoleBinding are among them, and grant nothing
		if namespace != "" {
			break
		}
		rules = append(rules, rbacv1.PolicyRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
	}
	return rules, !review.Status.Incomplete, nil
}

// allowed asks for one right: a rule with one verb, one group and one resource, or one path.
func (l Reviewer) allowed(ctx context.Context, namespace string, right rbacv1.PolicyRule) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
	}
	if len(right.NonResourceURLs) > 0 {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{
			Verb: right.Verbs[0], Path: right.NonResourceURLs[0],
		}
	} else {
		resource, sub, _ := strings.Cut(right.Resources[0], "/")
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: right.Verbs[0], Group: right.APIGroups[0], Resource: resource, Subresource: sub,
		}
		if len(right.ResourceNames) > 0 {
			review.Spec.ResourceAttributes.Name = right.ResourceNames[0]
		}
	}
	err := l.Post(ctx, "apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
	return review.Status.Allowed, err
}

// DescribePermission names a right as an operator would ask for it: "list nodes", "get apps/deployments in team-a".
func DescribePermission(right rbacv1.PolicyRule, namespace string) string {
	if len(right.NonResourceURLs) > 0 {
		return right.Verbs[0] + " " + right.NonResourceURLs[0]
	}
	what := right.Resources[0]
	if group := right.APIGroups[0]; group != "" {
		what = group + "/" + what
	}
	if len(right.ResourceNames) > 0 {
		what += " " + right.ResourceNames[0]
	}
	if namespace != "" {
		what += " in " + namespace
	}
	return right.Verbs[0] + " " + what
}
