// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/objectsync"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

const syncDiffExample = `  # What a rule of the hub would write now
  %s sync diff pull-secrets

  # A rule that is not applied yet, in one remote
  %s sync diff pull-secrets --rules rules.yaml --cluster edge-eu-1`

const rulesFlag = "rules"

func newSync(p Program) *cobra.Command {
	return group(&cobra.Command{
		Use:     "sync",
		Short:   "Show what a rule of the module sync would write",
		Long:    "Show what a rule of the module sync would write. The rules and what they have done are objects: kubectl get syncrules.",
		Example: p.example(syncDiffExample),
	}, newSyncDiff(p))
}

func newSyncDiff(p Program) *cobra.Command {
	var d objectsync.Diff
	var format output.Format
	var file string
	var policy kubeconfig.Policy
	s := &session{program: p}
	cmd := &cobra.Command{
		Use:   "diff RULE",
		Short: "Show what a rule would write, with a dry run in each remote",
		Long: "Show which copies a rule would create, change and delete now, with a dry run of each write in its target. It prints\n" +
			"the paths of fields and no values. Limits are not considered.\n\n" +
			"The rule is that of the hub, or, before it is applied, of a file with --rules. The command uses the network of\n" +
			"this machine, and the credentials of the hub for its remotes.\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(syncDiffExample),
		Args:    output.OneName("the name of a rule"),
		RunE: s.onHub(func(cmd *cobra.Command, hub *access.Cluster, args []string) (err error) {
			d.Hub = hub
			if d.Rule, err = s.rule(cmd, d.Hub, file, args[0]); err != nil {
				return err
			}
			return s.diff(cmd.Context(), &d, policy, format)
		}),
	}
	set := cmd.Flags()
	set.StringVar(&d.Cluster, "cluster", "", "Only the remote of this Cluster. Default: all that the rule selects")
	set.StringVar(&file, rulesFlag, "", "File with SyncRules, - for standard input. Default: the rule of the hub")
	set.Var((*hubconfig.CIDRs)(&policy.AllowCIDRs), "allow-cidr", "As the hub's flag of the same name. Repeatable (default none)")
	format.BindList(set)
	s.bind(cmd, true)
	complete(cmd, "cluster", s.completeClusters(true))
	return cmd
}

func (s *session) diff(ctx context.Context, d *objectsync.Diff, flags kubeconfig.Policy, format output.Format) (err error) {
	if d.HubID, err = d.Hub.ID(ctx); err != nil {
		return err
	}
	policy := s.hub.Dev().Policy
	policy.AllowCIDRs = slices.Concat(policy.AllowCIDRs, flags.AllowCIDRs)
	place := enroll.Place{Hub: d.Hub, Namespace: s.hub.Namespace}
	d.Reach = func(ctx context.Context, c *hubv1.Cluster) (*access.Cluster, func(), error) {
		return place.Reach(ctx, c, policy)
	}
	all, err := d.Run(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 && format.Tabular() {
		s.terminal.Text("No differences found.")
		return nil
	}
	return printChanges(d.Rule, all, format, s.terminal.Out)
}

// printChanges returns the errors of the changes.
func printChanges(r rules.Rule, all []objectsync.Change, format output.Format, w io.Writer) error {
	list := output.List{Kind: "RuleChange", Columns: []string{"Cluster", "Object", "Action", "Reason", "Fields"}}
	var problems []error
	for _, c := range all {
		fields, action := map[string]any{"rule": r.Name, "cluster": c.Cluster}, string(c.Action)
		if c.Err != nil {
			fields["error"], action = c.Err.Error(), "<unknown>"
			problems = append(problems, fmt.Errorf("rule %s for %s: %w", r.Name, c.Cluster, c.Err))
		} else {
			fields["object"], fields["action"], fields["reason"], fields["fields"] = c.Object, action, c.Reason, append([]string{}, c.Fields...)
		}
		list.Items = append(list.Items, output.Item{
			Name: strings.TrimSuffix(c.Cluster+"/"+c.Object, "/"), Fields: fields,
			Cells: []any{c.Cluster, c.Object, action, c.Reason, strings.Join(c.Fields, ",")},
		})
	}
	return errors.Join(append(problems, format.Print(w, list))...)
}

func (s *session) rule(cmd *cobra.Command, hub *access.Cluster, file, name string) (rules.Rule, error) {
	if file == "" {
		var one hubv1.SyncRule
		if err := hub.Get(cmd.Context(), client.ObjectKey{Name: name}, &one); err != nil {
			return rules.Rule{}, hub.Explain(fmt.Errorf("read the SyncRule %s: %w", name, err))
		}
		return rules.Compile(&one)
	}
	all, err := readRules(cmd, file)
	if err != nil {
		return rules.Rule{}, err
	}
	i := slices.IndexFunc(all, func(r rules.Rule) bool { return r.Name == name })
	if i < 0 {
		return rules.Rule{}, fmt.Errorf("%s has no SyncRule %s", file, name)
	}
	return all[i], nil
}

func readRules(cmd *cobra.Command, file string) (all []rules.Rule, err error) {
	text, err := readInput(cmd.InOrStdin(), file)
	if err == nil {
		all, err = roles.ReadRules(text)
	}
	if err == nil && len(all) == 0 {
		err = errors.New("it has no SyncRule")
	}
	if err != nil {
		return nil, fmt.Errorf("--%s=%s: %w", rulesFlag, file, err)
	}
	return all, nil
}
