// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/fx"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// With impersonation, an app has on the hub only the permissions that the hub's RBAC grants to its remote.
func TestRegistry_Impersonate(t *testing.T) {
	t.Parallel()
	hub := clientFor(t, fleettest.Cluster(t, "hub"))
	namespace := fleettest.Namespace(t, hub, "scoped-")
	grant(t, hub, namespace, rbac.HubUser("apps", "trusted"))

	manage := make(chan client.Client, 2)
	module := registry.NewModule("writer", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) { manage <- p.HubClient })})
	r := newRegistry(t, func(o *registry.Options) {
		o.Impersonate, o.AppsNamespace, o.Modules = true, "apps", []registry.Module{module}
	})
	_, config := remote(t, "one")

	write := func(c client.Client, name string) error {
		return c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	spawn(t, r, "trusted", config)
	trusted := <-manage
	eventually(t, func() error { // New RBAC rules take a moment to apply.
		if err := write(trusted, "by-trusted"); !apierrors.IsAlreadyExists(err) {
			return errors.Join(err, errors.New("not created before"))
		}
		return nil
	})
	spawn(t, r, "stranger", config)
	stranger := <-manage
	if err := write(stranger, "by-stranger"); !apierrors.IsForbidden(err) {
		t.Errorf("write by an app without permissions on the hub: got %v, want Forbidden", err)
	}
	who := &authenticationv1.SelfSubjectReview{}
	must(t, stranger.Create(t.Context(), who))
	want := authenticationv1.UserInfo{
		Username: "system:serviceaccount:apps:stranger",
		Groups:   []string{"system:serviceaccounts", rbac.HubGroup("apps"), "system:authenticated"},
	}
	testkit.Equal(t, who.Status.UserInfo, want, "user info of an app on the hub")
}

func grant(t *testing.T, hub client.Client, namespace, user string) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "writer"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "writer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "writer"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	for _, obj := range []client.Object{role, binding} {
		if err := hub.Create(context.WithoutCancel(t.Context()), obj); err != nil {
			t.Fatalf("create %T: %v", obj, err)
		}
	}
}
