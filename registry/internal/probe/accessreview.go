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

	"github.com/clusterfx/clusterfx/registry/internal/machine"
)

// absentNamespace is a namespace that no cluster has. For this namespace an API server returns the rules that apply in
// all namespaces.
const absentNamespace = "clusterfx-asks-for-rules-everywhere"

// maxReviews is the maximum number of access reviews in one preflight. Permissions beyond it count as missing if the
// rules of the remote are complete, and as granted if the remote reports that they are incomplete.
const maxReviews = 64

// maxRules is how many rules of a remote are read. Each is compared with each permission that a module needs.
const maxRules = 1000

// maxPermissionsNamed is how many missing permissions of a module a message names.
const maxPermissionsNamed = 8

// Reviewer queries an API server for the permissions of its user. Post sends a review and decodes the response into it.
type Reviewer struct {
	Post func(ctx context.Context, path string, review client.Object) error
}

// Missing returns the permissions that modules need and the credentials lack, by module.
//
// It first requests all rules of the user, which is one request per namespace. An API server that authorizes by other
// means than RBAC, too, leaves some permissions out of the response. Missing therefore sends an access review for
// each permission that the rules do not cover.
//
// With spec.namespaces, a permission on a cluster-scoped kind counts as granted if a RoleBinding grants it, although
// such a grant has no effect: the rules do not show which kinds have a namespace.
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

// Abbreviate cuts a list of permissions to the length that a message has room for, and adds how many it left out.
func Abbreviate(permissions []string) []string {
	if more := len(permissions) - maxPermissionsNamed; more > 0 {
		return append(permissions[:maxPermissionsNamed:maxPermissionsNamed], fmt.Sprintf("and %d more", more))
	}
	return permissions
}

// missing returns the candidates that are not granted in a namespace. It sends at most as many access reviews as
// reviews allows, and subtracts their number from it.
func (r Reviewer) missing(ctx context.Context, namespace string, candidates []rbacv1.PolicyRule, reviews *int) ([]string, error) {
	var missing []string
	for _, permission := range candidates {
		if *reviews > 0 {
			*reviews--
			allowed, err := r.allowed(ctx, namespace, permission)
			if err != nil {
				return nil, err
			}
			if allowed {
				continue
			}
		}
		missing = append(missing, DescribePermission(permission, namespace))
	}
	return missing, nil
}

// rulesIn returns the rules that apply in a namespace, or in all namespaces if it is empty, and whether these are
// all rules.
func (r Reviewer) rulesIn(ctx context.Context, namespace string) (rules []rbacv1.PolicyRule, all bool, err error) {
	review := &authorizationv1.SelfSubjectRulesReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectRulesReview"},
	}
	if review.Spec.Namespace = namespace; namespace == "" {
		review.Spec.Namespace = absentNamespace
	}
	if err := r.Post(ctx, "apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review); err != nil {
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

// allowed reviews one permission: a rule with one verb, one group and one resource, or with one path.
func (r Reviewer) allowed(ctx context.Context, namespace string, permission rbacv1.PolicyRule) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
	}
	if len(permission.NonResourceURLs) > 0 {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{
			Verb: permission.Verbs[0], Path: permission.NonResourceURLs[0],
		}
	} else {
		resource, sub, _ := strings.Cut(permission.Resources[0], "/")
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: permission.Verbs[0], Group: permission.APIGroups[0], Resource: resource, Subresource: sub,
		}
		if len(permission.ResourceNames) > 0 {
			review.Spec.ResourceAttributes.Name = permission.ResourceNames[0]
		}
	}
	err := r.Post(ctx, "apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
	return review.Status.Allowed, err
}

// DescribePermission names a permission as an operator would: "list nodes", "get apps/deployments in team-a".
func DescribePermission(permission rbacv1.PolicyRule, namespace string) string {
	if len(permission.NonResourceURLs) > 0 {
		return permission.Verbs[0] + " " + permission.NonResourceURLs[0]
	}
	resource := permission.Resources[0]
	if group := permission.APIGroups[0]; group != "" {
		resource = group + "/" + resource
	}
	if len(permission.ResourceNames) > 0 {
		resource += " " + permission.ResourceNames[0]
	}
	if namespace != "" {
		resource += " in " + namespace
	}
	return permission.Verbs[0] + " " + resource
}
