// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/rehearse"
)

const rehearseExample = `  # What would this version change, in two Clusters of each region?
  %s rehearse --config hub.yaml --per-label region=2

  # All of it, for a program
  %s rehearse --config hub.yaml -o json

  # From a workstation, with the hub's own accounts: the rehearsal alone keeps itself from writing
  %s rehearse --config hub.yaml --trust-observe`

const rehearseLong = `Run this version of the hub beside the running one, turn every write into a dry run, and say what would
change: nothing, or which fields of which objects of which Clusters. It changes nothing, in no cluster: it has no
share of the Clusters, writes no status and no event, and renews no token.

The flags are those of run. A rehearsal has accounts of its own, which register --rehearsal makes in a remote and
install --rehearsal in the hub's cluster, and which may only dry-run. It ends when each app has reconciled
everything twice and sends nothing new, or after --for.

Exit status: 0 if nothing would change, 2 if something would, 1 if it could not be told, 3 if the policy that keeps
the accounts from writing is not in force.`

// rehearseFlags are those of the command rehearse beside those of run.
type rehearseFlags struct {
	run      *hubconfig.Flags
	todo     rehearse.Options
	selector string
	format   output.Format
}

func newRehearse(p Program) *cobra.Command {
	f := &rehearseFlags{}
	cmd := &cobra.Command{
		Use:     "rehearse",
		Short:   "Say what this version of the hub would change, without one write",
		Long:    rehearseLong,
		Example: p.example(rehearseExample),
		Args:    output.None,
	}
	set, o := cmd.Flags(), &f.todo
	set.SortFlags = false
	set.StringVarP(&f.selector, "selector", "l", "", "Rehearse only Clusters with these labels. Default: all")
	set.StringToIntVar(&o.PerLabel, "per-label", nil, "Of each value of a label, so many Clusters, as in region=2. Default: all")
	set.Lookup("per-label").DefValue = ""
	set.IntVar(&o.Max, "max", 0, "How many Clusters to rehearse; 0 means all")
	set.DurationVar(&o.For, "for", 15*time.Minute, "How long the rehearsal lasts at most")
	set.DurationVar(&o.Quiet, "quiet", 10*time.Second, "How long an app sends nothing new until it is at rest")
	set.BoolVar(&o.Trust, "trust-observe", false, "Use the hub's own accounts, which may write: nothing but this program keeps it from that (default false)")
	set.StringVar(&o.Against, "against", "", "File with the metrics of the running hub, to compare requests, objects and memory with them. Default: none")
	f.format.Bind(set, "json or yaml. Default: a report for people")
	f.run = hubconfig.Bind(set, p.Modules)
	quiet(set)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.do(cmd.Context(), p) }
	return cmd
}

// quiet: the report is what matters.
func quiet(set *pflag.FlagSet) {
	level := set.Lookup("log-level")
	level.DefValue = "error"
	_ = level.Value.Set(level.DefValue) // It is a text.
}

func (f *rehearseFlags) do(ctx context.Context, p Program) error {
	var err error
	if f.todo.Selector, err = labels.Parse(f.selector); err != nil {
		return fmt.Errorf("--selector=%q: %w", f.selector, err)
	}
	out := logging.NewBuffer(p.Stderr)
	defer out.Close()
	if f.todo.Hub, err = f.run.Complete(out); err != nil {
		return err
	}
	p.route(&f.todo.Hub)
	terminal := output.NewTerminal(nil, p.Stdout, p.Stderr)
	f.todo.Progress = terminal.Step
	report, err := rehearse.Run(ctx, f.todo)
	if errors.Is(err, rehearse.ErrNotHeld) {
		terminal.Say(output.Failure, "%v", err)
		return process.ExitError(rehearse.Unheld)
	}
	if report != nil {
		err = errors.Join(err, f.print(p, report))
	}
	if err != nil || report.Verdict() == rehearse.Agrees {
		return err
	}
	return process.ExitError(report.Verdict())
}

func (f *rehearseFlags) print(p Program, report *rehearse.Report) error {
	if f.format.Tabular() {
		return report.Print(p.Stdout)
	}
	return output.PrintData(p.Stdout, f.format, report)
}
