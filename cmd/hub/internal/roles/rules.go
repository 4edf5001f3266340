// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/renewal"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Rules are the permissions of a hub in its own cluster.
type Rules struct {
	// Everywhere applies to the whole cluster, Own to the namespace of the hub, and Events to the
	// namespace default.
	Everywhere, Own, Events []rbacv1.PolicyRule
	// Sharding applies to the namespace of the hub, too, if several replicas share the Clusters.
	Sharding []rbacv1.PolicyRule
	// Apps are the permissions of the apps in the whole cluster, if they act as ServiceAccounts of their own.
	Apps []rbacv1.PolicyRule
	// ownOfModules are the permissions in Own that modules need.
	ownOfModules []rbacv1.PolicyRule
	// Modules are the permissions that modules need in other single namespaces, which have to exist.
	Modules []rbac.NamespacedRules
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

// leaderRules returns the permissions that the election of a leader among several replicas needs in the namespace of its Lease,
// beside those of the hub's Lease, which include the creation of any Lease.
func leaderRules(lease string) []rbacv1.PolicyRule {
	return leaseRules(LeaderLease(lease))[1:]
}

// shardingRules returns the permissions that a hub needs in the credentials namespace, beside its own, if several replicas share
// the Clusters, but for the Lease of their leader.
func shardingRules() []rbacv1.PolicyRule {
	return merged(slices.Concat(replica.Rules(), cluster.ReplicaRules(), partreport.ReplicaRules()))
}

// ownRules returns the permissions of a hub in the credentials namespace, but for its Lease.
func ownRules() []rbacv1.PolicyRule {
	return slices.Concat(cluster.CredentialsRules(), partreport.Rules(), renewal.Rules(), cluster.EventRules())
}

// OfHub returns the permissions of a hub with these modules, and a Lease of this name, in its own cluster.
func OfHub(modules []registry.Module, lease string) *Rules {
	rules := &Rules{
		Everywhere: cluster.Rules(),
		Own:        merged(slices.Concat(ownRules(), leaseRules(lease))),
		Events:     cluster.EventRules(),

		Sharding: slices.Concat(shardingRules(), leaderRules(lease)),
	}
	for _, needed := range rbac.HubRules(modules...) {
		needed.Rules = merged(needed.Rules)
		switch needed.Namespace {
		case "":
			rules.Everywhere = merged(append(rules.Everywhere, needed.Rules...))
			rules.Apps = needed.Rules
		case registry.CredentialsNamespace:
			rules.Own = merged(append(rules.Own, needed.Rules...))
			rules.ownOfModules = needed.Rules
		default:
			rules.Modules = append(rules.Modules, needed)
		}
	}
	return rules
}

// merged returns rules that grant the same, with one rule for all that differ in their verbs only: several modules may need
// the same permission, and the hub itself may need it, too.
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
