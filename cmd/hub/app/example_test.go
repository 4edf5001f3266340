// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"os"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/modules"
)

// A custom hub, with the commands and flags of the stock hub.
func ExampleMain() {
	_ = func() { // func main() {
		os.Exit(app.Main(modules.All()...))
	}
}

// A hub as a part of another program, or of a test. It ends when the context ends.
func ExampleRun() {
	_ = func(ctx context.Context, management *rest.Config) error {
		return app.Run(ctx, app.Options{Config: management, Modules: modules.All(), Alone: true})
	}
}
