// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Right is a permission for one action.
type Right struct {
	Verb, Group, Resource, Subresource, Namespace, Name string
	// Path is of a permission that is not about a resource.
	Path string
}

// String names the permission for operators: "list nodes", "get apps/deployments in team-a".
func (r Right) String() string {
	if r.Path != "" {
		return r.Verb + " " + r.Path
	}
	what := r.Resource
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	if r.Group != "" {
		what = r.Group + "/" + what
	}
	if r.Name != "" {
		what += " " + r.Name
	}
	if r.Namespace != "" {
		what += " in " + r.Namespace
	}
	return r.Verb + " " + what
}

// RightsOf returns the single permissions that rules consist of.
func RightsOf(rules []rbacv1.PolicyRule) []Right {
	var all []Right
	for _, rule := range rules {
		for _, one := range validation.BreakdownRule(rule) {
			all = append(all, rightOf(one))
		}
	}
	return all
}

func rightOf(rule rbacv1.PolicyRule) Right {
	if len(rule.NonResourceURLs) > 0 {
		return Right{Verb: rule.Verbs[0], Path: rule.NonResourceURLs[0]}
	}
	resource, sub, _ := strings.Cut(rule.Resources[0], "/")
	right := Right{Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: sub}
	if len(rule.ResourceNames) > 0 {
		right.Name = rule.ResourceNames[0]
	}
	return right
}

// Lacks asks the API server which permissions the client does not have, with a request for each.
func (c *Cluster) Lacks(ctx context.Context, rights []Right) ([]Right, error) {
	var missing []Right
	seen := map[Right]bool{}
	for _, right := range rights {
		if seen[right] {
			continue
		}
		seen[right] = true
		review := &authorizationv1.SelfSubjectAccessReview{Spec: right.Review()}
		if err := c.Create(ctx, review); err != nil {
			return nil, c.Explain(fmt.Errorf("ask whether you may %s: %w", right, err))
		}
		if !review.Status.Allowed {
			missing = append(missing, right)
		}
	}
	return missing, nil
}

// Review asks the API server whether the client has the permission.
func (r Right) Review() authorizationv1.SelfSubjectAccessReviewSpec {
	if r.Path != "" {
		return authorizationv1.SelfSubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: r.Verb, Path: r.Path},
		}
	}
	return authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}}
}

// Require returns an error that names every permission that the client does not have.
func (c *Cluster) Require(ctx context.Context, rights []Right) error {
	missing, err := c.Lacks(ctx, rights)
	if err != nil || len(missing) == 0 {
		return err
	}
	return fmt.Errorf("in %s you lack these permissions: %s; ask an administrator for them, or use another account", c.What, Names(missing))
}

// Names lists permissions in one line.
func Names(rights []Right) string {
	names := make([]string, 0, len(rights))
	for _, r := range rights {
		names = append(names, r.String())
	}
	return strings.Join(names, ", ")
}
