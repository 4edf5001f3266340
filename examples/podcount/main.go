// SPDX-License-Identifier: Apache-2.0

// Command podcount is a hub of one's own: the stock modules, and one more.
package main

import (
	"os"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/examples/podcount/podcount"
	"github.com/clusterfx/clusterfx/modules"
)

func main() { os.Exit(app.Main(append(modules.All(), podcount.Module)...)) }
