// SPDX-License-Identifier: Apache-2.0

// Package modules lists the modules of the stock hub. Each has its folder; modules/inventory is the model.
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
		objectsync.RulesModule,
		natshub.Module,
		tenants.Module,
	}
}
