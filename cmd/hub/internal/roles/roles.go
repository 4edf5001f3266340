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

// Hub is the hub that the roles are for.
type Hub struct {
	Namespace, Lease string
	// LeaseNamespace has the Lease; empty for the credentials namespace.
	LeaseNamespace string
	Impersonate    bool
	// AppsNamespace has the ServiceAccounts of the apps.
	AppsNamespace string
	// Sharded is for replicas that share the Clusters.
	Sharded bool
}

// Names of the roles, and of the hub's Lease unless another one is chosen.
const (
	HubRole = "clusterfx-hub"
	// ShardingRole is the Role of replicas that share the Clusters.
	ShardingRole = "clusterfx-hub-sharding"
	// ModulesRole is the Role in each namespace of Rules.Modules.
	ModulesRole = "clusterfx-hub-modules"
	// AppsRole is the ClusterRole of the apps, and their Role in these namespaces.
	AppsRole = "clusterfx-apps"
	Lease    = "clusterfx-hub"

	remoteRole = "clusterfx-remote"
)

// AppsNamespace returns the default namespace of the apps' ServiceAccounts: the hub's, with -apps.
func AppsNamespace(hub string) string { return hub + "-apps" }

// LeaderLease names the Lease of the leader among replicas that share the Clusters, beside the hub's Lease.
func LeaderLease(lease string) string { return lease + "-leader" }

// Roles returns the roles in the hub's cluster, in an order in which they can be created.
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

func (h *Hub) electsElsewhere() bool {
	return h.LeaseNamespace != "" && h.LeaseNamespace != h.Namespace
}

func (h *Hub) ofReplicas() []*rbacv1.Role {
	if h.electsElsewhere() {
		return []*rbacv1.Role{
			role(h.Namespace, ShardingRole, shardingRules()), role(h.LeaseNamespace, ShardingRole, leaderRules(h.Lease)),
		}
	}
	return []*rbacv1.Role{role(h.Namespace, ShardingRole, slices.Concat(shardingRules(), leaderRules(h.Lease)))}
}

func (h *Hub) apps() string { return cmp.Or(h.AppsNamespace, AppsNamespace(h.Namespace)) }

// ofApps returns the ServiceAccounts' namespace, the role to impersonate only these, and the roles of the apps.
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
