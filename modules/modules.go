// SPDX-License-Identifier: Apache-2.0

// Package modules is the list of the modules that are compiled into the stock hub. Each has its own folder;
// modules/inventory is the model for new modules.
//
// A hub of your own takes all of them, some, or none:
//
//	for _, m := range modules.All() {
//		options = append(options, m.Option())
//	}
package modules

import (
	"github.com/clusterfx/clusterfx/modules/inventory"
	"github.com/clusterfx/clusterfx/modules/objectsync"
	"github.com/clusterfx/clusterfx/modules/tenants"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
)

// All returns the modules of the stock hub.
func All() []registry.Module {
	return []registry.Module{
		inventory.Module,
		objectsync.Module,
		natshub.Module,
		tenants.Module,
	}
}
