// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"fmt"

	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/modules/inventory"
	"github.com/clusterfx/clusterfx/registry"
)

// Your own hub runs the module next to your modules: each module is one line.
func Example() {
	pods := registry.NewModule("pods", registry.ModuleOptions{
		Remote: fx.Invoke(func(p registry.Remote) {
			p.Logger.Info("Runs in the app of every remote", "cluster", p.Name)
		}),
	})
	hub := fx.Options(
		inventory.Module.Option(),
		pods.Option(),
	)
	fmt.Println(inventory.Module.Name(), hub != nil)
	// Output: inventory true
}
