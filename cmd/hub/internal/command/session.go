// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
)

// The exit statuses of commands that work on a hub, in addition to 0 and 1.
const (
	// statusNotWell is for a command that completed and found a problem.
	statusNotWell = 2
	// statusInterrupted is for an interrupted command: 128 and the number of SIGINT.
	statusInterrupted = 130
)

const exitCodes = "Exit status: 0 if all went well, 1 if something failed, 130 after Ctrl-C."

const exitCodesWaiting = "Exit status: 0 if all went well, 1 if something failed, 2 if everything was done and the\n" +
	"cluster is not well, 130 after Ctrl-C."

// connectionHelp tells of the flags that are not listed.
const connectionHelp = "All flags that kubectl has for its connection are understood; kubectl options lists them."

// session has the connection and the terminal of a command that works on a hub.
type session struct {
	program  Program
	hub      access.Flags
	terminal *output.Terminal
}

// bind adds the flags for the hub's cluster to a command, below its own, with the one for the namespace if that is needed, and has it end
// as such commands do.
func (s *session) bind(cmd *cobra.Command, namespaced bool) *session {
	set := cmd.Flags()
	set.SortFlags = false
	if namespaced {
		s.hub.BindNamespace(set)
	}
	s.hub.Bind(set)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.terminal = output.NewTerminal(cmd.InOrStdin(), s.program.Stdout, s.program.Stderr)
		return s.end(cmd.Context(), run(cmd, args))
	}
	return s
}

// onHub is for commands that always work on the hub's cluster.
func (s *session) onHub(run func(cmd *cobra.Command, hub *access.Cluster, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		hub, err := s.hub.Hub()
		if err != nil {
			return err
		}
		return run(cmd, hub, args)
	}
}

// end turns the error of a command into the exit status of the program.
func (s *session) end(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		s.terminal.Warn("interrupted; run the same command again to resume")
		return process.ExitError(statusInterrupted)
	case errors.Is(err, enroll.ErrNotReady), errors.Is(err, install.ErrNotRunning), errors.Is(err, replica.ErrNotDrained):
		s.terminal.Say(output.Failure, "%v", err)
		return process.ExitError(statusNotWell)
	}
	return err
}

// readInput reads a file, or the standard input if it is -.
func readInput(in io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(in, maxInput))
	}
	return os.ReadFile(file)
}

// maxInput is larger than anything that is read from the standard input.
const maxInput = 16 << 20

// completionTimeout bounds the requests of a completion: a user does not wait longer after Tab.
const completionTimeout = 3 * time.Second

func (s *session) completeClusters(several bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		const done = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 && !several {
			return nil, done
		}
		hub, err := s.hub.Hub()
		if err != nil {
			return nil, done
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		var list hubv1.ClusterList
		if err := hub.List(ctx, &list); err != nil {
			return nil, done
		}
		var names []string
		for _, c := range list.Items {
			if strings.HasPrefix(c.Name, begun) && !slices.Contains(args, c.Name) {
				names = append(names, c.Name)
			}
		}
		return names, done
	}
}

func (p Program) completeModules(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	before, last := "", begun
	if i := strings.LastIndexByte(begun, ','); i >= 0 {
		before, last = begun[:i+1], begun[i+1:]
	}
	var all []string
	for _, m := range p.Modules {
		if strings.HasPrefix(m.Name(), last) && !slices.Contains(args, m.Name()) {
			all = append(all, before+m.Name()+"\t"+m.Description())
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completeWords completes the flags that take one of some words, of a command and those below it.
func completeWords(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if words := output.WordsOf(flag); len(words) > 0 {
			complete(cmd, flag.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, below := range cmd.Commands() {
		completeWords(below)
	}
}

func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, f) // It fails for flags that are not there or have one already.
}

type dryRun string

const (
	dryRunNone   dryRun = "none"
	dryRunClient dryRun = "client"
	dryRunServer dryRun = "server"
)

func bindDryRun(set *pflag.FlagSet, to *dryRun) {
	*to = dryRunNone
	set.Var(output.OneOf(to, dryRunNone, dryRunClient, dryRunServer), "dry-run",
		"client prints the planned changes, server has the API servers check them, too; neither changes anything")
	set.Lookup("dry-run").NoOptDefVal = string(dryRunClient)
}
