// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

type declaration struct {
	module     string
	remote     []rbacv1.PolicyRule // with those of the registry itself
	hub        []rbac.NamespacedRules
	namespaces []string // namespaces limit some or all of the rules for the hub.
}

// undeclaredIn is for an app with some modules at a remote. Other modules watch the remote from their hub parts.
func undeclaredIn(modules catalog.Catalog, run []catalog.Choice, labels map[string]string) cache.Undeclared {
	return func(module string, refused *http.Request) (string, state.Problem) {
		if i := slices.IndexFunc(run, func(c catalog.Choice) bool { return c.Name == module }); i >= 0 {
			return declarationAt(run[i]).undeclared(false, refused)
		}
		if entry := modules.Find(module); entry != nil {
			return declarationOf(entry.Module, entry.RulesFor(labels)).undeclared(false, refused)
		}
		return "", state.Problem{}
	}
}

func declarationAt(c catalog.Choice) declaration {
	rules, _ := c.ConfigRules() // The app fails with the error.
	return declarationOf(c.Module, rules)
}

func declarationOf(m catalog.Module, rules catalog.ConfigRules) declaration {
	one := Module{inner: m, rules: &rules}
	return declaration{module: m.Name, remote: rbac.RemoteRules(one), hub: rbac.HubRules(one), namespaces: hubNamespaces(one)}
}

// hubNamespaces returns none if the permissions are not limited.
func hubNamespaces(m Module) []string {
	namespaces := slices.Clone(m.HubNamespaces())
	for _, part := range m.ConfigHubRules() {
		if part.Namespace != "" && !slices.Contains(namespaces, part.Namespace) {
			namespaces = append(namespaces, part.Namespace)
		}
	}
	return namespaces
}

// undeclared names the rule for a refused informer, or "" if declared: then the API server lacks it. To grant an undeclared one
// fixes one remote only.
func (d declaration) undeclared(inHub bool, refused *http.Request) (string, state.Problem) {
	of, rules, problem := requestinfo.Of(refused.URL.Path), "Rules", state.ProblemUndeclaredRule
	if inHub {
		rules, problem = "HubRules", state.ProblemUndeclaredHubRule
	}
	if selector, err := fields.ParseSelector(refused.URL.Query().Get("fieldSelector")); err == nil {
		of.Name, _ = selector.RequiresExactMatch("metadata.name")
	}
	right := d.lacks(inHub, of, "list", "watch")
	if right == "" {
		return "", state.Problem{}
	}
	return fmt.Sprintf("module %s does not declare %q in its %s", d.module, right, rules), state.Problem{Kind: problem}
}

// lacks describes what the rules lack of these verbs, or is empty.
func (d declaration) lacks(inHub bool, of requestinfo.Info, verbs ...string) string {
	declared, place := d.remote, ""
	if inHub {
		declared = d.hubRules(of.Namespace)
		if len(d.namespaces) > 0 {
			place = cmp.Or(of.Namespace, "all namespaces")
		}
	}
	right := rbacv1.PolicyRule{APIGroups: []string{of.Group}, Resources: []string{of.Resource}}
	if of.Name != "" {
		right.ResourceNames = []string{of.Name}
	}
	var missing []string
	for _, verb := range verbs {
		right.Verbs = []string{verb}
		if covered, _ := validation.Covers(declared, []rbacv1.PolicyRule{right}); !covered {
			missing = append(missing, verb)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return rbac.Right{Verb: listOf(missing), Group: of.Group, Resource: of.Resource, Namespace: place}.String()
}

func (d declaration) hubRules(namespace string) (rules []rbacv1.PolicyRule) {
	for _, part := range d.hub {
		if part.Namespace == "" || part.Namespace == namespace {
			rules = append(rules, part.Rules...)
		}
	}
	return rules
}

func listOf(verbs []string) string {
	last := len(verbs) - 1
	if last == 0 {
		return verbs[0]
	}
	return strings.Join(verbs[:last], ", ") + " and " + verbs[last]
}
