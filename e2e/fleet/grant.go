// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// grantTimeout bounds the wait until an API server applies a new permission.
const grantTimeout = 30 * time.Second

func grantName(s rbacv1.Subject) string {
	return "fleet:" + strings.ToLower(s.Kind) + ":" + s.Name
}

func (c *Cluster) grant(ctx context.Context, s rbacv1.Subject, rules []rbacv1.PolicyRule) error {
	if len(rules) == 0 {
		return c.withdraw(ctx, s)
	}
	meta := metav1.ObjectMeta{Name: grantName(s)}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
	roles := c.kube.RbacV1().ClusterRoles()
	_, err := roles.Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("grant %s its rights: %w", s.Name, err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{s},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
	}
	_, err = c.kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("grant %s its rights: %w", s.Name, err)
	}
	return c.awaitRights(ctx, s, rules[len(rules)-1])
}

// awaitRights takes milliseconds, so that a permission can be used at once.
func (c *Cluster) awaitRights(ctx context.Context, s rbacv1.Subject, rule rbacv1.PolicyRule) error {
	review := reviewOf(s, rule)
	ctx, cancel := context.WithTimeout(ctx, grantTimeout)
	defer cancel()
	return c.await(ctx, func() error { return nil }, func(ctx context.Context) error {
		answer, err := c.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			err = fmt.Errorf("%s has no rights yet", s.Name)
		}
		return err
	})
}

// reviewOf is for an action that a rule allows.
func reviewOf(s rbacv1.Subject, rule rbacv1.PolicyRule) *authorizationv1.SubjectAccessReview {
	user := s.Name
	if s.Kind == rbacv1.ServiceAccountKind {
		user = accountUser(s.Namespace, s.Name)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user}}
	if len(rule.NonResourceURLs) > 0 {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{
			Path: cmp.Or(rule.NonResourceURLs...), Verb: cmp.Or(rule.Verbs...),
		}
		return review
	}
	resource, subresource, _ := strings.Cut(cmp.Or(rule.Resources...), "/")
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Verb: cmp.Or(rule.Verbs...), Group: cmp.Or(rule.APIGroups...),
		Resource: resource, Subresource: subresource, Name: cmp.Or(rule.ResourceNames...),
	}
	return review
}

func (c *Cluster) withdraw(ctx context.Context, s rbacv1.Subject) error {
	for _, remove := range []func(context.Context, string, metav1.DeleteOptions) error{
		c.kube.RbacV1().ClusterRoleBindings().Delete,
		c.kube.RbacV1().ClusterRoles().Delete,
	} {
		err := remove(ctx, grantName(s), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("withdraw the rights of %s: %w", s.Name, err)
		}
	}
	return nil
}
