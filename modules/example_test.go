// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"fmt"

	"github.com/clusterfx/clusterfx/modules"
)

// The modules of the stock hub.
func ExampleAll() {
	for _, m := range modules.All() {
		fmt.Println(m.Name())
	}
	// Output:
	// inventory
	// sync
	// sync-rules
	// nats
	// tenants
}
