// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"fmt"

	"github.com/clusterfx/clusterfx/modules"
)

// What the stock hub is made of.
func ExampleAll() {
	for _, m := range modules.All() {
		fmt.Println(m.Name())
	}
	// Output: inventory
}
