// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/permissions"
	"github.com/clusterfx/clusterfx/registry/state"
)

// UndeclaredAccess is a permission that a module needs for a request which an API server has refused, and does not declare.
type UndeclaredAccess struct {
	// Module is the name of the module. If the module that has sent the request is unknown, it has the names of all
	// possible modules, joined by "or".
	Module string
	// Right is the permission, such as "watch namespaces".
	Right string
	// InHub says that the API server of the hub has refused the request: HubRules lack the permission, and not Rules.
	InHub bool
}

// String names the permission and the rules that lack it.
func (u UndeclaredAccess) String() string { return permissions.Undeclared(u).String() }

// Problem identifies the problem, for advice that is not in String.
func (u UndeclaredAccess) Problem() state.Problem { return permissions.Undeclared(u).Problem() }

// Undeclared returns the permissions that modules lacked in this process because they do not declare them, sorted.
func (r *Registry) Undeclared() []UndeclaredAccess {
	var all []UndeclaredAccess
	for _, u := range r.remotes.Rulebook.Undeclared() {
		all = append(all, UndeclaredAccess(u))
	}
	return all
}

// declared returns the permissions that a module declares, and reports whether the hub has the module.
func declared(modules catalog.Catalog, module string) (permissions.Declaration, bool) {
	entry := modules.Find(module)
	if entry == nil {
		return permissions.Declaration{}, false
	}
	return declarationOf(entry.Module), true
}

// declarationOf returns the permissions that a module declares.
func declarationOf(m catalog.Module) permissions.Declaration {
	d := permissions.Declaration{Remote: catalog.RemoteRules(m), InNamespaces: len(m.HubNamespaces) > 0}
	for _, rules := range catalog.HubRules(m) {
		d.Hub = append(d.Hub, permissions.NamespacedRules(rules))
	}
	return d
}
