// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// rulesOf reads a list of rules: a name, and a spec.
func rulesOf(t testing.TB, text string) []*hubv1.SyncRule {
	t.Helper()
	var specs map[string]hubv1.SyncRuleSpec
	testkit.Must(t, yaml.UnmarshalStrict([]byte(text), &specs))
	all := make([]*hubv1.SyncRule, 0, len(specs))
	for name, spec := range specs {
		all = append(all, &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	}
	return all
}

// hubOf starts a hub with one remote, a, that has the permissions of some rules there, and creates the rules.
func hubOf(t testing.TB, text string, more ...hubtest.Option) *hubtest.Hub {
	t.Helper()
	all := rulesOf(t, text)
	hub := hubtest.New(t, append([]hubtest.Option{
		hubtest.Remotes("a"), hubtest.Modules(objectsync.Quick(), objectsync.RulesModule), remoteRules(t, all...),
	}, more...)...)
	create(hub, all)
	return hub
}

// restrictedHub runs with exactly the permissions that the module declares and the rules need.
func restrictedHub(t testing.TB, text string, more ...hubtest.Option) *hubtest.Hub {
	t.Helper()
	all := rulesOf(t, text)
	hub := hubOf(t, "{}", append(more, hubtest.DeclaredHubRights(), remoteRules(t, all...))...)
	grantInHub(t, hub, all...)
	create(hub, all)
	return hub
}

func create(hub *hubtest.Hub, all []*hubv1.SyncRule) {
	for _, one := range all {
		hub.Create(one)
	}
}

func compiled(t testing.TB, one *hubv1.SyncRule) rules.Rule {
	t.Helper()
	r, err := rules.Compile(one)
	testkit.Must(t, err)
	if r.Kind.Resource == "" { // The kinds of the tests have regular names.
		guess, _ := apimeta.UnsafeGuessKindToResource(r.GVK())
		r.Kind.Resource = guess.Resource
	}
	return r
}

func remoteRules(t testing.TB, all ...*hubv1.SyncRule) hubtest.Option {
	t.Helper()
	granted := rbac.RemoteRules(objectsync.Module)
	for _, one := range all {
		granted = append(granted, compiled(t, one).Permissions().Remote...)
	}
	return hubtest.Rules(granted...)
}

// grantInHub creates the namespaces of the rules, too.
func grantInHub(t testing.TB, hub *hubtest.Hub, all ...*hubv1.SyncRule) {
	t.Helper()
	subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: "hubtest-hub"}}
	for _, one := range all {
		for i, part := range compiled(t, one).Permissions().Hub {
			name := fmt.Sprintf("sync-%s-%d", one.Name, i)
			if part.Namespace == "" {
				hub.Create(&rbacv1.ClusterRole{ObjectMeta: meta1("", name), Rules: part.Rules},
					&rbacv1.ClusterRoleBinding{ObjectMeta: meta1("", name), Subjects: subject, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name, APIGroup: rbacv1.GroupName}})
				continue
			}
			ensureNamespace(t, hub, part.Namespace)
			hub.Create(&rbacv1.Role{ObjectMeta: meta1(part.Namespace, name), Rules: part.Rules},
				&rbacv1.RoleBinding{ObjectMeta: meta1(part.Namespace, name), Subjects: subject, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name, APIGroup: rbacv1.GroupName}})
		}
	}
}

func meta1(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func ensureNamespace(t testing.TB, hub *hubtest.Hub, name string) {
	t.Helper()
	found := namespace(name, nil)
	if err := hub.Client().Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
		hub.Create(namespace(name, nil))
	}
}

// editRule changes a rule of the hub.
func editRule(t testing.TB, hub *hubtest.Hub, name string, change func(r *hubv1.SyncRule)) {
	t.Helper()
	hub.Eventually(func() error {
		r := &hubv1.SyncRule{}
		if err := hub.Client().Get(t.Context(), client.ObjectKey{Name: name}, r); err != nil {
			return err
		}
		change(r)
		return hub.Client().Update(t.Context(), r)
	})
}
