// SPDX-License-Identifier: Apache-2.0

// Package rbac computes the permissions that the modules of a hub need, for the tools that grant them: in each remote,
// and in the hub, where the app of a remote may act as a user of its own.
package rbac

import (
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Module has the permissions that a module declares. A registry.Module is one; registry.ModuleOptions describes them.
type Module interface {
	Rules() []rbacv1.PolicyRule
	HubRules() []rbacv1.PolicyRule
	HubNamespaces() []string
	// ConfigHubRules follow from the configuration. HubNamespaces do not limit them.
	ConfigHubRules() []NamespacedRules
}

// HubUser returns who the app of a remote is in the hub with registry.Options.Impersonate: the ServiceAccount in
// AppsNamespace with the remote's name.
func HubUser(appsNamespace, remote string) string {
	return "system:serviceaccount:" + appsNamespace + ":" + remote
}

// HubGroup returns the group of these ServiceAccounts.
func HubGroup(appsNamespace string) string { return "system:serviceaccounts:" + appsNamespace }

// RemoteRules returns what the hub's user needs in a remote for some modules and for the registry itself. Kubernetes
// grants the rest (health, version, APIs, its own permissions) to every authenticated user, by the roles
// system:discovery, system:public-info-viewer and system:basic-user.
func RemoteRules[M Module](modules ...M) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		// For the id of the cluster, and to see whether a parent goes with its Namespace or definition.
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get"}},
		// For Remote.EventRecorder.
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
	for _, m := range modules {
		rules = append(rules, m.Rules()...)
	}
	return rules
}

// NamespacedRules are rules that apply to one namespace, or to the whole cluster if Namespace is empty.
type NamespacedRules struct {
	Namespace string
	Rules     []rbacv1.PolicyRule
}

// HubRules returns what modules need in the hub: first for the whole cluster, with rules on Clusters and on paths, then
// for each namespace, sorted by name.
func HubRules[M Module](modules ...M) []NamespacedRules {
	byNamespace := map[string][]rbacv1.PolicyRule{}
	add := func(rules []rbacv1.PolicyRule, namespaces ...string) {
		if len(namespaces) > 0 {
			everywhere, namespaced := splitRules(rules)
			for _, namespace := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
				byNamespace[namespace] = append(byNamespace[namespace], namespaced...)
			}
			rules = everywhere
		}
		byNamespace[""] = append(byNamespace[""], rules...)
	}
	for _, m := range modules {
		add(m.HubRules(), m.HubNamespaces()...)
		for _, part := range m.ConfigHubRules() {
			if part.Namespace == "" {
				add(part.Rules)
			} else {
				add(part.Rules, part.Namespace)
			}
		}
	}
	maps.DeleteFunc(byNamespace, func(_ string, rules []rbacv1.PolicyRule) bool { return len(rules) == 0 })
	var all []NamespacedRules
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		all = append(all, NamespacedRules{Namespace: namespace, Rules: byNamespace[namespace]})
	}
	return all
}

const (
	clustersGroup    = "clusterfx.dev"
	clustersResource = "clusters"
)

// WithoutSecrets leaves out the rules about Secrets.
func WithoutSecrets(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "secrets") })
}

// splitRules separates rules on Clusters and on paths, which no Role can grant. A rule on all groups or resources is
// about Clusters, too.
func splitRules(rules []rbacv1.PolicyRule) (everywhere, namespaced []rbacv1.PolicyRule) {
	for _, r := range rules {
		if len(r.NonResourceURLs) > 0 {
			everywhere = append(everywhere, r)
			continue
		}
		ours, others := partition(r.APIGroups, func(group string) bool { return group == clustersGroup })
		clusters, rest := partition(r.Resources, func(resource string) bool {
			base, _, _ := strings.Cut(resource, "/")
			return base == clustersResource || base == rbacv1.ResourceAll
		})
		if len(ours) > 0 || slices.Contains(r.APIGroups, rbacv1.APIGroupAll) {
			everywhere = appendRule(everywhere, r, []string{clustersGroup}, clusters)
		}
		namespaced = appendRule(namespaced, r, ours, rest)
		namespaced = appendRule(namespaced, r, others, r.Resources)
	}
	return everywhere, namespaced
}

// appendRule appends a rule like another one with these groups and resources, if there are some of both.
func appendRule(to []rbacv1.PolicyRule, like rbacv1.PolicyRule, groups, resources []string) []rbacv1.PolicyRule {
	if len(groups) == 0 || len(resources) == 0 {
		return to
	}
	like.APIGroups, like.Resources = groups, resources
	return append(to, like)
}

func partition(all []string, holds func(string) bool) (yes, no []string) {
	for _, one := range all {
		if holds(one) {
			yes = append(yes, one)
		} else {
			no = append(no, one)
		}
	}
	return yes, no
}

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

// Review asks an API server whether the client has the permission.
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
