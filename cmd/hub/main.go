// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/modules"
)

func main() { os.Exit(app.Main(modules.All()...)) }
