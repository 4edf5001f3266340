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
	// Own is for the namespace of the hub, Events for the namespace default.
	Everywhere, Own, Events []rbacv1.PolicyRule
	// Sharding is for the namespace of the hub, if replicas share the Clusters.
	Sharding []rbacv1.PolicyRule
	// Apps are for the whole cluster, if the apps act as ServiceAccounts.
	Apps []rbacv1.PolicyRule
	// ownOfModules are the permissions in Own that modules need.
	ownOfModules []rbacv1.PolicyRule
	// Modules need these in other namespaces, which must exist.
	Modules []rbac.NamespacedRules
}

func leaseRules(lease string) []rbacv1.PolicyRule {
	leases := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: verbs}
	}
	named := leases("get", "update")
	named.ResourceNames = []string{lease}
	return []rbacv1.PolicyRule{leases("create"), named}
}

// leaderRules are beside those of the hub's Lease, which allow to create any Lease.
func leaderRules(lease string) []rbacv1.PolicyRule {
	return leaseRules(LeaderLease(lease))[1:]
}

// shardingRules leave out the Lease of the leader.
func shardingRules() []rbacv1.PolicyRule {
	return merged(slices.Concat(replica.Rules(), cluster.ReplicaRules(), partreport.ReplicaRules()))
}

// ownRules leave out the Lease.
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

// merged joins rules that differ in their verbs only: modules and the hub may need the same.
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
