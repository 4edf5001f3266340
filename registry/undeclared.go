// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"

	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/permissions"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Undeclared returns the permissions that modules lacked in this process and do not declare, sorted.
func (r *Registry) Undeclared() []state.UndeclaredAccess { return r.remotes.Rulebook.Undeclared() }

// declared is for all remotes together, and reports whether the hub has the module.
func declared(modules catalog.Catalog, module string) (permissions.Declaration, bool) {
	entry := modules.Find(module)
	if entry == nil {
		return permissions.Declaration{}, false
	}
	return declarationOf(entry.Module, allRules(entry)), true
}

func allRules(e *catalog.Item) catalog.ConfigRules {
	rules, _ := e.AllRules() // newCatalog has reported the error.
	return rules
}

// declaredIn is for an app that runs some modules at a remote with these labels. Other modules send requests to the
// remote from their hub parts.
func declaredIn(modules catalog.Catalog, run []catalog.Choice, labels map[string]string) func(string) (permissions.Declaration, bool) {
	return func(module string) (permissions.Declaration, bool) {
		if i := slices.IndexFunc(run, func(c catalog.Choice) bool { return c.Name == module }); i >= 0 {
			return declarationAt(run[i]), true
		}
		entry := modules.Find(module)
		if entry == nil {
			return permissions.Declaration{}, false
		}
		return declarationOf(entry.Module, entry.RulesFor(labels)), true
	}
}

func declarationAt(c catalog.Choice) permissions.Declaration {
	rules, _ := c.ConfigRules() // The app fails with the error.
	return declarationOf(c.Module, rules)
}

func declarationOf(m catalog.Module, rules catalog.ConfigRules) permissions.Declaration {
	one := Module{inner: m, rules: &rules}
	return permissions.Declaration{Remote: rbac.RemoteRules(one), Hub: rbac.HubRules(one), Namespaces: hubNamespaces(one)}
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
