// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/permissions"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Undeclared returns the permissions that modules lacked in this process because they do not declare them, sorted.
func (r *Registry) Undeclared() []state.UndeclaredAccess { return r.remotes.Rulebook.Undeclared() }

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
	one := Module{inner: m}
	return permissions.Declaration{Remote: rbac.RemoteRules(one), Hub: rbac.HubRules(one), InNamespaces: len(m.HubNamespaces) > 0}
}
