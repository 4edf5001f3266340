// SPDX-License-Identifier: Apache-2.0

// Command quota-hub is a hub with the stock modules and quota.
package main

import (
	"os"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/examples/quota/quota"
	"github.com/clusterfx/clusterfx/modules"
)

func main() { os.Exit(app.Main(append(modules.All(), quota.Module)...)) }
