// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Hub describes the hub that the roles are for.
type Hub struct {
	// Namespace is the credentials namespace, and Lease the name of the hub's Lease in it.
	Namespace, Lease string
	// LeaseNamespace is the namespace of the Lease, empty for the credentials namespace.
	LeaseNamespace string
	Impersonate    bool
	// AppsNamespace is the namespace whose ServiceAccounts the apps act as.
	AppsNamespace string
	// Sharded adds the permissions of a hub whose replicas share the Clusters.
	Sharded bool
}

// Names of the roles, and of the hub's Lease unless another one is chosen.
const (
	// HubRole is the name of the hub's roles in its own cluster.
	HubRole = "clusterfx-hub"
	// ShardingRole is the name of the Role, and of its binding, of a hub whose replicas share the Clusters.
	ShardingRole = "clusterfx-hub-sharding"
	// ModulesRole is the name of the Role, and of its binding, in each namespace of Rules.Modules.
	ModulesRole = "clusterfx-hub-modules"
	// AppsRole is the name of the ClusterRole of the apps, and of their Role in each of these namespaces.
	AppsRole = "clusterfx-apps"
	// Lease is the name of the hub's Lease.
	Lease = "clusterfx-hub"

	remoteRole = "clusterfx-remote"
)

// AppsNamespace returns the namespace of the ServiceAccounts that the apps of a hub act as, unless another one is
// chosen: the namespace of the hub, with -apps.
func AppsNamespace(hub string) string { return hub + "-apps" }

// LeaderLease returns the name of the Lease of the leader among replicas that share the Clusters, in a hub with a Lease of that
// name. It is in the namespace of that Lease.
func LeaderLease(lease string) string { return lease + "-leader" }

// Roles returns the roles in the cluster of a hub with these modules, in an order in which they can be created.
func (h *Hub) Roles(modules []registry.Module) []client.Object {
	var all []client.Object
	if h.Impersonate {
		all = h.ofApps(modules)
	}
	rules := OfHub(modules, h.Lease)
	roles := []*rbacv1.Role{role(h.Namespace, HubRole, rules.Own), role(metav1.NamespaceDefault, HubRole, rules.Events)}
	if h.electsElsewhere() {
		roles[0].Rules = merged(slices.Concat(ownRules(), rules.ownOfModules))
		inLease := role(h.LeaseNamespace, HubRole, slices.Concat(leaseRules(h.Lease), cluster.EventRules()))
		if h.LeaseNamespace == metav1.NamespaceDefault {
			roles[1] = inLease // which has the rules for events, too
		} else {
			roles = append(roles, inLease)
		}
	}
	if h.Sharded {
		roles = append(roles, h.ofReplicas()...)
	}
	all = append(all, clusterRole(HubRole, rules.Everywhere))
	for _, one := range roles {
		all = append(all, one)
	}
	for _, needed := range rules.Modules {
		all = append(all, roleFor(ModulesRole, needed))
	}
	return all
}

// electsElsewhere reports whether the Lease is in another namespace than the credentials.
func (h *Hub) electsElsewhere() bool {
	return h.LeaseNamespace != "" && h.LeaseNamespace != h.Namespace
}

// ofReplicas returns the roles of a hub whose replicas share the Clusters, beside those of every hub.
func (h *Hub) ofReplicas() []*rbacv1.Role {
	if h.electsElsewhere() {
		return []*rbacv1.Role{
			role(h.Namespace, ShardingRole, shardingRules()), role(h.LeaseNamespace, ShardingRole, leaderRules(h.Lease)),
		}
	}
	return []*rbacv1.Role{role(h.Namespace, ShardingRole, slices.Concat(shardingRules(), leaderRules(h.Lease)))}
}

// apps returns the namespace of the ServiceAccounts that the apps act as.
func (h *Hub) apps() string { return cmp.Or(h.AppsNamespace, AppsNamespace(h.Namespace)) }

// ofApps returns the namespace of the ServiceAccounts that the apps act as, the role by which the hub may impersonate
// these and no other user, and the roles of the apps.
func (h *Hub) ofApps(modules []registry.Module) []client.Object {
	namespace := h.apps()
	all := []client.Object{
		&corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
		},
		role(namespace, HubRole, []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}},
		}),
	}
	for _, needed := range rbac.HubRules(modules...) {
		if needed.Namespace == registry.CredentialsNamespace {
			continue // Apps have no access to the namespace with the credentials.
		}
		all = append(all, roleFor(AppsRole, needed))
	}
	return all
}

// roleFor returns the role that grants rules where they apply.
func roleFor(name string, needed rbac.NamespacedRules) client.Object {
	if needed.Namespace == "" {
		return clusterRole(name, needed.Rules)
	}
	return role(needed.Namespace, name, needed.Rules)
}

// OfRemote returns the role in every remote.
func OfRemote(modules []registry.Module) client.Object {
	return clusterRole(remoteRole, rbac.RemoteRules(modules...))
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
