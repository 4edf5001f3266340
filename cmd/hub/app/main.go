// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
	"github.com/clusterfx/clusterfx/registry"
)

// Main is the main function of a hub with these modules: it runs the command that the arguments of
// the process ask for, and returns what to exit with. The first SIGINT or SIGTERM stops the hub in
// good order, the second one ends the process at once; the log of a hub gets a second for what it has not written yet.
//
// It sets three globals of client-go's libraries: a panic in a goroutine of theirs, which a remote can cause
// with what it sends, is logged and does not end the process; panics that a library has recovered are
// counted against the module whose code it was; and requests to remotes are counted together.
func Main(modules ...registry.Module) int {
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, registry.CountPanic)
	ctx, signals, stop := newSignals(context.Background())
	defer stop()
	return execute(ctx, program{
		args: os.Args, stdout: os.Stdout, stderr: os.Stderr, modules: modules, isHub: registry.LimitClientMetrics(),
		signals: signals,
		stock:   isStock(debug.ReadBuildInfo()),
	})
}

// program is a hub's command line: everything that commands know of the process.
type program struct {
	args           []string
	stdout, stderr io.Writer
	modules        []registry.Module
	isHub          func(*rest.Config) // is told where the hub is; may be nil
	signals        *signals           // may be nil
	stock          bool               // this is the stock hub
}

// exitError ends the program with a code of its own. Whoever returns it to execute has said why.
type exitError int

// Error says what the program exits with.
func (e exitError) Error() string {
	return fmt.Sprintf("the hub was asked to end with exit status %d", int(e))
}

// codeOf returns the exitError in an error, and that of a plain failure if there is none.
func codeOf(err error) exitError {
	var exit exitError
	if errors.As(err, &exit) {
		return exit
	}
	return 1
}

func execute(ctx context.Context, p program) int {
	root := newRoot(p)
	root.SetArgs(p.args[1:])
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := arguments.ExplainCommand(root, p.args[1:], root.ExecuteContext(ctx))
	var exit exitError
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
