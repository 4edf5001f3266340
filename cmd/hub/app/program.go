// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/signals"
	"github.com/clusterfx/clusterfx/registry"
)

// program is a hub's command line: everything that commands know of the process.
type program struct {
	args           []string
	stdout, stderr io.Writer
	modules        []registry.Module
	isHub          func(*rest.Config) // is told where the hub is; may be nil
	signals        *signals.Signals   // may be nil
	stock          bool               // this is the stock hub
}

func execute(ctx context.Context, p program) int {
	root := newRoot(p)
	root.SetArgs(p.args[1:])
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := arguments.ExplainCommand(root, p.args[1:], root.ExecuteContext(ctx))
	var exit process.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case devHasSaid(err):
		return 1
	}
	_, _ = fmt.Fprintln(p.stderr, "Error:", err)
	return 1
}
