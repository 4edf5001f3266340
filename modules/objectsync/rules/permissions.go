// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Permissions returns exactly what the rule needs, whose kind must have a resource. Recording events in remotes is granted to every module.
func (r Rule) Permissions() registry.ConfigRules {
	if r.From == hubv1.SyncFromHub {
		remote := r.asTarget()
		if r.CreatesNamespace() && r.Mode != hubv1.SyncObserve {
			remote = append(remote, namespaces("create"))
		}
		return registry.ConfigRules{Remote: remote, Hub: r.hubAsSource()}
	}
	found := registry.ConfigRules{Remote: r.asSource()}
	for _, namespace := range r.hubScopes() {
		found.Hub = append(found.Hub, rbac.NamespacedRules{Namespace: namespace, Rules: r.asTarget()})
	}
	if r.OnTargetDeletion == hubv1.SyncPropagate && !IsServedByKubernetes(r.GVK().Group) {
		found.Hub = append(found.Hub, everywhere(definitions("get")))
	}
	return found
}

// IsServedByKubernetes reports a group whose kinds have no definitions.
func IsServedByKubernetes(group string) bool { return clientgoscheme.Scheme.IsGroupRegistered(group) }

func (r Rule) rule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{r.GVK().Group}, Resources: []string{resource}, Verbs: verbs}
}

func (r Rule) asSource() []rbacv1.PolicyRule {
	verbs := []string{"get", "list", "watch"}
	if r.HasFinalizers() {
		verbs = append(verbs, "patch")
	}
	if r.OnTargetDeletion == hubv1.SyncPropagate && r.Mode != hubv1.SyncObserve {
		verbs = append(verbs, "delete")
	}
	all := []rbacv1.PolicyRule{r.rule(r.Kind.Resource, verbs...)}
	if r.ReturnsStatus() && r.Mode != hubv1.SyncObserve {
		all = append(all, r.rule(r.Kind.Resource+"/status", "patch"))
	}
	if r.From == hubv1.SyncFromRemote && r.Namespaces.Selector != nil {
		all = append(all, namespaces("list", "watch"))
	}
	return all
}

func (r Rule) asTarget() []rbacv1.PolicyRule {
	verbs := []string{"get", "list", "watch"}
	if r.Mode != hubv1.SyncObserve {
		verbs = append(verbs, "create", "patch", "delete")
	}
	all := []rbacv1.PolicyRule{r.rule(r.Kind.Resource, verbs...)}
	if r.BringsCRD() && r.Mode != hubv1.SyncObserve {
		all = append(all, definitions("get", "create"))
	}
	return all
}

func (r Rule) hubAsSource() []rbac.NamespacedRules {
	var all []rbac.NamespacedRules
	for _, namespace := range r.hubScopes() {
		all = append(all, rbac.NamespacedRules{Namespace: namespace, Rules: r.asSource()})
	}
	for _, namespace := range r.eventNamespaces() {
		record := rbacv1.PolicyRule{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create"}}
		all = append(all, rbac.NamespacedRules{Namespace: namespace, Rules: []rbacv1.PolicyRule{record}})
	}
	if !IsServedByKubernetes(r.GVK().Group) {
		all = append(all, everywhere(definitions("get")))
	}
	if r.Namespaces.Selector != nil {
		all = append(all, everywhere(namespaces("get", "list", "watch")))
	}
	return all
}

// HubNamespaces returns where in the hub the rule works for all clusters; none if unknown, or the kind has no
// namespaces.
func (r Rule) HubNamespaces() []string {
	switch {
	case r.From == hubv1.SyncFromRemote && isTemplate(r.To.Namespace):
		return nil
	case r.From == hubv1.SyncFromRemote && r.To.Namespace != "":
		return []string{r.To.Namespace}
	}
	return slices.Sorted(slices.Values(r.Namespaces.Names))
}

func (r Rule) hubScopes() []string {
	if known := r.HubNamespaces(); len(known) > 0 {
		return known
	}
	return []string{metav1.NamespaceAll}
}

// eventNamespaces are where the hub records events about originals, and about a Cluster that lacks the definition.
func (r Rule) eventNamespaces() []string {
	all := r.hubScopes()
	switch {
	case !r.IsNamespaced():
		return []string{metav1.NamespaceDefault}
	case r.BringsCRD() && !slices.Contains(all, metav1.NamespaceAll) && !slices.Contains(all, metav1.NamespaceDefault):
		return append(all, metav1.NamespaceDefault)
	}
	return all
}

func namespaces(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: verbs}
}

func definitions(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{"customresourcedefinitions"}, Verbs: verbs,
	}
}

func everywhere(rule rbacv1.PolicyRule) rbac.NamespacedRules {
	return rbac.NamespacedRules{Rules: []rbacv1.PolicyRule{rule}}
}
