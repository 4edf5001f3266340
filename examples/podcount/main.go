// SPDX-License-Identifier: Apache-2.0

// Command podcount is a custom hub: the stock modules, and the module podcount.
package main

import (
	"os"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/examples/podcount/podcount"
	"github.com/clusterfx/clusterfx/modules"
)

func main() { os.Exit(app.Main(append(modules.All(), podcount.Module)...)) }
