// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/command"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/internal/clientmetrics"
	"github.com/clusterfx/clusterfx/registry"
)

// Main is the main function of a hub with these modules: it runs the command that the process's arguments name, and
// returns the exit status. The first SIGINT or SIGTERM stops the hub in good order, the second ends the process at once.
//
// Unless the environment does (GOGC, GOMEMLIMIT), it sets the pace of the garbage collector and the cgroup's memory
// limit. It sets three globals of client-go's libraries: a panic in their goroutines, which a remote can cause, is
// logged and does not end the process; recovered panics count against their module; and requests to remotes are counted
// together.
func Main(modules ...registry.Module) int {
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, registry.CountPanic)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal does what it does by default.
	return command.Execute(ctx, command.Program{
		Args: os.Args, Stdout: os.Stdout, Stderr: os.Stderr, Modules: modules, ObserveHub: clientmetrics.Limit(),
		Collector: func() func(int) { return process.NewPace().Starting },
		Stock:     project.IsStock(debug.ReadBuildInfo()),
	})
}
