// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"

	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/permissions"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Undeclared returns the permissions that modules lacked in this process because they do not declare them, sorted.
func (r *Registry) Undeclared() []state.UndeclaredAccess { return r.remotes.Rulebook.Undeclared() }

// declared returns the permissions that a module declares, for all remotes together, and reports whether the hub has the
// module.
func declared(modules catalog.Catalog, module string) (permissions.Declaration, bool) {
	entry := modules.Find(module)
	if entry == nil {
		return permissions.Declaration{}, false
	}
	return declarationOf(entry.Module, allRules(entry)), true
}

// allRules returns the permissions that follow from the configuration of a module for all remotes together.
func allRules(e *catalog.Entry) catalog.ConfigRules {
	rules, _ := e.AllRules() // newCatalog has reported the error.
	return rules
}

// declaredIn returns the function that returns the permissions that a module declares, for an app that runs some modules at a
// remote with these labels. Other modules send requests to the remote from their hub parts.
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

// declarationAt returns the permissions that a module declares for a remote.
func declarationAt(c catalog.Choice) permissions.Declaration {
	rules, _ := c.ConfigRules() // The app fails with the error.
	return declarationOf(c.Module, rules)
}

// declarationOf returns the permissions that a module declares, with those that follow from its configuration.
func declarationOf(m catalog.Module, rules catalog.ConfigRules) permissions.Declaration {
	one := Module{inner: m, rules: &rules}
	return permissions.Declaration{Remote: rbac.RemoteRules(one), Hub: rbac.HubRules(one), Namespaces: hubNamespaces(one)}
}

// hubNamespaces returns the namespaces of the hub that the permissions of a module are limited to, or none if none are.
func hubNamespaces(m Module) []string {
	namespaces := slices.Clone(m.HubNamespaces())
	for _, part := range m.ConfigHubRules() {
		if part.Namespace != "" && !slices.Contains(namespaces, part.Namespace) {
			namespaces = append(namespaces, part.Namespace)
		}
	}
	return namespaces
}
