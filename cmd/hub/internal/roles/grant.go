// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

const (
	// grantTimeout is for an API server that has to notice new roles, grantPeriod between two questions.
	grantTimeout = 30 * time.Second
	grantPeriod  = 20 * time.Millisecond
)

// Grant gives an account of the hub's cluster exactly the permissions of a hub with these modules: roles, bindings and
// missing namespaces. It returns when the API server applies them. A role that exists is an error, because it may grant
// more. The client must act as an administrator, and know the kinds of Kubernetes.
func (h *Hub) Grant(ctx context.Context, admin client.Client, modules []registry.Module, account rbacv1.Subject) error {
	for _, one := range h.Roles(modules) {
		g := grant{admin: admin, to: account}
		if one.GetName() == AppsRole {
			g.to = rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: rbac.HubGroup(h.apps())}
		}
		if err := g.make(ctx, one); err != nil {
			return fmt.Errorf("grant the hub its permissions: %w", err)
		}
	}
	return nil
}

type grant struct {
	admin client.Client
	to    rbacv1.Subject
}

// make binds a role, and waits until it applies.
func (g grant) make(ctx context.Context, object client.Object) error {
	meta := metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Name: meta.Name}
	var binding client.Object
	var rules []rbacv1.PolicyRule
	switch role := object.(type) {
	case *rbacv1.ClusterRole:
		ref.Kind, rules = "ClusterRole", role.Rules
		binding = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{g.to}}
	case *rbacv1.Role:
		ref.Kind, rules = "Role", role.Rules
		binding = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{g.to}}
		if err := g.ensureNamespace(ctx, meta.Namespace); err != nil {
			return err
		}
	case *corev1.Namespace:
		return g.ensureNamespace(ctx, meta.Name)
	}
	for _, one := range []client.Object{object, binding} {
		if err := g.admin.Create(ctx, one); err != nil {
			return fmt.Errorf("create %T %s: %w", one, client.ObjectKeyFromObject(one), err)
		}
	}
	return g.await(ctx, meta.Namespace, rules)
}

func (g grant) ensureNamespace(ctx context.Context, name string) error {
	err := g.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the namespace %s: %w", name, err)
	}
	return nil
}

func (g grant) await(ctx context.Context, namespace string, rules []rbacv1.PolicyRule) error {
	for _, right := range access.RightsOf(rules) {
		right.Namespace = namespace
		err := wait.PollUntilContextTimeout(ctx, grantPeriod, grantTimeout, true, func(ctx context.Context) (bool, error) {
			review := &authorizationv1.SubjectAccessReview{Spec: g.reviewOf(right)}
			err := g.admin.Create(ctx, review)
			return review.Status.Allowed, err
		})
		if err != nil {
			return fmt.Errorf("wait until %s may %s: %w", g.to.Name, right, err)
		}
	}
	return nil
}

func (g grant) reviewOf(right access.Right) authorizationv1.SubjectAccessReviewSpec {
	own := right.Review()
	spec := authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: own.ResourceAttributes, NonResourceAttributes: own.NonResourceAttributes,
	}
	switch g.to.Kind {
	case rbacv1.GroupKind:
		spec.Groups = []string{g.to.Name}
	case rbacv1.ServiceAccountKind:
		spec.User = "system:serviceaccount:" + g.to.Namespace + ":" + g.to.Name
	default:
		spec.User = g.to.Name
	}
	return spec
}
