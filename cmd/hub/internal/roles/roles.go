// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"cmp"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/renewal"
	"github.com/clusterfx/clusterfx/registry"
)

// Hub says for which hub roles are.
type Hub struct {
	// Namespace is the credentials namespace, and lease the name of the hub's Lease in it.
	Namespace, Lease string
	// LeaseNamespace is the namespace of the Lease, empty for the credentials namespace.
	LeaseNamespace string
	Impersonate    bool
	// AppsNamespace is the one whose ServiceAccounts the apps act as.
	AppsNamespace string
}

// Names of the roles.
const (
	hubRole    = "clusterfx-hub"
	remoteRole = "clusterfx-remote"
)

// Roles returns the roles in the cluster of a hub with these modules, in an order in which they can be created.
func (h *Hub) Roles(modules []registry.Module) []client.Object {
	var all []client.Object
	if h.Impersonate {
		all = h.ofApps(modules)
	}
	rules := OfHub(modules, h.Lease)
	roles := []*rbacv1.Role{role(h.Namespace, hubRole, rules.Own), role(metav1.NamespaceDefault, hubRole, rules.Events)}
	if h.LeaseNamespace != "" && h.LeaseNamespace != h.Namespace {
		roles[0].Rules = ownRules()
		inLease := role(h.LeaseNamespace, hubRole, slices.Concat(leaseRules(h.Lease), cluster.EventRules()))
		if h.LeaseNamespace == metav1.NamespaceDefault {
			roles[1] = inLease // which has the rules of the other one
		} else {
			roles = append(roles, inLease)
		}
	}
	all = append(all, clusterRole(hubRole, rules.Everywhere))
	for _, one := range roles {
		all = append(all, one)
	}
	for _, needed := range rules.Modules {
		all = append(all, roleFor(install.ModulesRole, needed))
	}
	return all
}

// apps returns the namespace of the ServiceAccounts that the apps act as.
func (h *Hub) apps() string { return cmp.Or(h.AppsNamespace, install.AppsNamespace(h.Namespace)) }

// ofApps returns the namespace of the ServiceAccounts that the apps act as, the role by which the hub may impersonate
// these and no other user, and the roles of the apps.
func (h *Hub) ofApps(modules []registry.Module) []client.Object {
	namespace := h.apps()
	all := []client.Object{
		&corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
		},
		role(namespace, hubRole, []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}},
		}),
	}
	for _, needed := range registry.HubRules(modules...) {
		all = append(all, roleFor(install.AppsRole, needed))
	}
	return all
}

// leaseRules returns the permissions that leader election needs in the namespace of its Lease.
func leaseRules(lease string) []rbacv1.PolicyRule {
	leases := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: verbs}
	}
	named := leases("get", "update")
	named.ResourceNames = []string{lease}
	return []rbacv1.PolicyRule{leases("create"), named}
}

// ownRules returns the permissions of a hub in the credentials namespace, but for its Lease.
func ownRules() []rbacv1.PolicyRule {
	return slices.Concat(cluster.CredentialsRules(), partreport.Rules(), renewal.Rules(), cluster.EventRules())
}

// OfHub returns the permissions of a hub with these modules, and a Lease of this name, in its own cluster.
func OfHub(modules []registry.Module, lease string) *install.Rules {
	rules := &install.Rules{
		Everywhere: append(cluster.Rules(), rbacv1.PolicyRule{ // by which the hub is told from its remotes
			APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem}, Verbs: []string{"get"},
		}),
		Own:    merged(slices.Concat(ownRules(), leaseRules(lease))),
		Events: cluster.EventRules(),
	}
	for _, needed := range registry.HubRules(modules...) {
		needed.Rules = merged(needed.Rules)
		if needed.Namespace == "" {
			rules.Everywhere = merged(append(rules.Everywhere, needed.Rules...))
			rules.Apps = needed.Rules
		} else {
			rules.Modules = append(rules.Modules, needed)
		}
	}
	return rules
}

// merged returns rules that grant the same, with one rule for all that differ in their verbs only: several modules may need
// the same, or what the hub needs itself.
func merged(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, rule := range rules {
		i := slices.IndexFunc(all, func(known rbacv1.PolicyRule) bool {
			return slices.Equal(known.APIGroups, rule.APIGroups) && slices.Equal(known.Resources, rule.Resources) &&
				slices.Equal(known.ResourceNames, rule.ResourceNames) && slices.Equal(known.NonResourceURLs, rule.NonResourceURLs)
		})
		if i < 0 {
			rule.Verbs = slices.Clone(rule.Verbs)
			all = append(all, rule)
			continue
		}
		for _, verb := range rule.Verbs {
			if !slices.Contains(all[i].Verbs, verb) {
				all[i].Verbs = append(all[i].Verbs, verb)
			}
		}
	}
	return all
}

// roleFor returns the role that grants rules where they apply.
func roleFor(name string, needed registry.NamespacedRules) client.Object {
	if needed.Namespace == "" {
		return clusterRole(name, needed.Rules)
	}
	return role(needed.Namespace, name, needed.Rules)
}

// OfRemote returns the role in every remote.
func OfRemote(modules []registry.Module) client.Object {
	return clusterRole(remoteRole, registry.RemoteRules(modules...))
}

func clusterRole(name string, rules []rbacv1.PolicyRule) client.Object {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      merged(rules),
	}
}

func role(namespace, name string, rules []rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Rules:      merged(rules),
	}
}
