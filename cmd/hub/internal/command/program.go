// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/registry"
)

// Program is a hub's command line: the arguments, the streams and the modules of the process.
type Program struct {
	Args           []string
	Stdout, Stderr io.Writer
	Modules        []registry.Module
	ObserveHub     func(*rest.Config) // called with the connection to the hub's cluster; may be nil
	// Collector is called before the hub runs, and returns Starting of process.Options; may be nil.
	Collector func() (starting func(remotes int))
	Signals   *Signals // may be nil
	Stock     bool     // this is the stock hub
}

// Execute runs the command that the arguments name, prints its error, and returns the exit status.
func Execute(ctx context.Context, p Program) int {
	root := newRoot(p)
	root.SetArgs(p.Args[1:])
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	err := arguments.ExplainCommand(root, p.Args[1:], root.ExecuteContext(ctx))
	var exit process.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case devHasSaid(err):
		return 1
	}
	_, _ = fmt.Fprintln(p.Stderr, "Error:", err)
	return 1
}
