// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/objectsync"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

const syncExample = `  # The rules, and what they have copied
  %s sync ls

  # The name of a copy
  %s sync translate pull-secrets platform/registry --remote edge-eu-1

  # Delete the copies that a removed rule has left
  %s sync prune pull-secrets --dry-run`

const syncListExample = `  # The state of each rule in each remote
  %s sync ls
  %s sync ls -o wide

  # One rule, in one remote
  %s sync ls pull-secrets --remote edge-eu-1`

const syncTranslateExample = `  # The names that the copy of a Secret may have
  %s sync translate pull-secrets platform/registry --remote edge-eu-1

  # The original of a copy
  %s sync translate pull-secrets platform/registry --remote edge-eu-1 --reverse`

const syncPruneExample = `  # Show the copies that a removed rule has left, and delete them
  %s sync prune pull-secrets --dry-run
  %s sync prune pull-secrets

  # Only Secrets, in one remote, as an administrator of it
  %s sync prune pull-secrets --kind v1/Secret --remote edge-eu-1 --cluster-context edge-eu-1-admin`

const syncReleaseExample = `  # Release all objects of the hub that are being deleted and wait for a remote that is away
  %s sync release tenant-apps --remote edge-eu-1

  # Release one of them
  %s sync release tenant-apps web --remote edge-eu-1`

const syncTruth = "The rules are those of the hub's configuration. The command uses the network of this machine, and the credentials\n" +
	"of the hub for its remotes."

func newSync(p Program) *cobra.Command {
	return group(&cobra.Command{
		Use:     "sync",
		Short:   "Show what the module sync copies, and delete or release what it has left",
		Long:    "Show what the rules of the module sync copy between the hub and its remotes, and delete or release what they have left.",
		Example: p.example(syncExample),
	}, newSyncList(p), newSyncDiff(p), newSyncTranslate(p), newSyncPrune(p), newSyncRelease(p))
}

type syncFlags struct {
	session *session
	remote  access.RemoteFlags
	config  string
	policy  kubeconfig.Policy
}

func (f *syncFlags) bind(p Program, cmd *cobra.Command, remotes ...*access.RemoteFlags) {
	set := cmd.Flags()
	set.StringVar(&f.config, hubconfig.ConfigFlag, "", "File of kind "+hubconfig.Kind+" of the hub, with the rules. Default: the installed file")
	f.session = p.newSession(cmd, true, remotes...)
}

// bindRemotes adds the flags for connections to remotes.
func (f *syncFlags) bindRemotes(set *pflag.FlagSet) {
	set.Var((*hubconfig.CIDRs)(&f.policy.AllowCIDRs), "allow-cidr", "As the hub's flag of the same name. Repeatable. Default: that of the configuration")
}

// fleet returns the hub, its remotes and its rules. Without a configuration it returns errNoConfig, unless that may be missing.
func (f *syncFlags) fleet(ctx context.Context, mayMiss bool) (objectsync.Fleet, error) {
	s := f.session
	hub, err := s.hub.Hub()
	if err != nil {
		return objectsync.Fleet{}, err
	}
	fleet := objectsync.Fleet{
		Hub: hub, Namespace: s.hub.Namespace, Policy: s.hub.Policy(), UserAgent: s.hub.UserAgent,
	}
	if fleet.HubID, err = hub.ID(ctx); err != nil {
		return objectsync.Fleet{}, err
	}
	modules, file, err := f.file(ctx)
	if err != nil && (!mayMiss || !errors.Is(err, errNoConfig)) {
		return objectsync.Fleet{}, err
	}
	fleet.Runs = func(c *hubv1.Cluster) bool { return runsSync(modules, c) }
	if file != nil {
		fleet.Policy = file.Options.Registry.Policy
		fleet.Policy.AllowCIDRs = slices.Concat(fleet.Policy.AllowCIDRs, s.hub.Policy().AllowCIDRs) // of a dev
		if fleet.Config, err = objectsync.ConfigOf(file.Options.Registry.ModuleConfigs); err != nil {
			return objectsync.Fleet{}, err
		}
	}
	fleet.Policy.AllowCIDRs = append(slices.Clone(fleet.Policy.AllowCIDRs), f.policy.AllowCIDRs...)
	if f.remote.Given() {
		fleet.Admin, err = f.remote.Remote()
	}
	return fleet, err
}

var errNoConfig = errors.New("no hub is installed whose configuration has the rules")

// file returns the modules of the hub and its configuration, which is nil if there is none.
func (f *syncFlags) file(ctx context.Context) ([]registry.Module, *hubconfig.Flags, error) {
	s := f.session
	if f.config != "" {
		return s.program.configuredBy(f.config)
	}
	installed, err := s.installed(ctx)
	if err == nil && installed.Config != "" {
		return s.program.configured(fmt.Sprintf("ConfigMap %s/%s", s.hub.Namespace, install.ConfigMapName), []byte(installed.Config))
	}
	if err == nil && installed.Image == "" {
		err = fmt.Errorf("%w in namespace %s; name the file with --%s", errNoConfig, s.hub.Namespace, hubconfig.ConfigFlag)
	}
	return s.program.Modules, nil, err
}

func runsSync(modules []registry.Module, c *hubv1.Cluster) bool {
	return slices.Contains(names(registry.SelectModules(modules, c.Labels, c.Spec.Modules)), objectsync.Module)
}

// syncTable are the flags of the commands that print a table of rules and remotes.
type syncTable struct {
	syncFlags

	form  output.Form
	scope objectsync.Scope
}

func (f *syncTable) bind(p Program, cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.scope.Clusters, "remote", nil, "Only the remote of this Cluster. Repeatable. Default: all")
	f.form.Bind(cmd)
	f.bindRemotes(cmd.Flags())
	f.syncFlags.bind(p, cmd)
	f.completeRemote(cmd)
}

// open checks the flags, takes the names of rules, and returns the fleet.
func (f *syncTable) open(ctx context.Context, names []string) (objectsync.Fleet, error) {
	if err := f.form.Format.Check(); err != nil {
		return objectsync.Fleet{}, err
	}
	f.scope.Rules = names
	return f.fleet(ctx, false)
}

func newSyncList(p Program) *cobra.Command {
	var f syncTable
	cmd := &cobra.Command{
		Use:     "ls [RULE...]",
		Aliases: []string{"list"},
		Short:   "Count originals, copies and conflicts of each rule in each remote",
		Long: "Count, for each rule and each remote that runs the module sync: originals, those with a copy, those without one\n" +
			"(missing), missing copies whose name belongs to another object (conflicts), and copies whose original has gone\n" +
			"(extra). The wide table names the objects in conflict. Only metadata is read. A copy that is there may have old\n" +
			"content.\n\n" + syncTruth + "\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(syncListExample),
		RunE: func(cmd *cobra.Command, args []string) error {
			fleet, err := f.open(cmd.Context(), args)
			if err != nil {
				return err
			}
			all, err := fleet.Count(cmd.Context(), f.scope)
			if err != nil {
				return err
			}
			if len(all) == 0 && f.form.Format.Tabular() {
				f.session.terminal.Text("No rules found for a Cluster that runs the module %s.", objectsync.Module)
				return nil
			}
			return objectsync.Print(all, f.form, f.session.terminal.Out)
		},
	}
	f.bind(p, cmd)
	return cmd
}

func (f *syncFlags) completeRemote(cmd *cobra.Command) {
	complete(cmd, "remote", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return f.session.completeClusters(true)(cmd, nil, begun)
	})
}

func requireRemote(name string) error {
	if name == "" {
		return errors.New("say for which remote, with --remote NAME")
	}
	return nil
}

func newSyncTranslate(p Program) *cobra.Command {
	var f syncFlags
	var name objectsync.Name
	var reverse bool
	cmd := &cobra.Command{
		Use:   "translate RULE [NAMESPACE/]NAME --remote NAME",
		Short: "Translate the name of an original into that of its copy, or back",
		Long: "Print the names that the copy of an object may have, in the order in which the hub tries them: the second name is\n" +
			"for an object whose first name belongs to the copy of another object. With --reverse, read a copy in the target\n" +
			"and print the name of its original, which its marks have.\n\n" + syncTruth + "\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(syncTranslateExample),
		Args:    ruleAndObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireRemote(name.Cluster); err != nil {
				return err
			}
			fleet, err := f.fleet(cmd.Context(), false)
			if err != nil {
				return err
			}
			name.Rule, name.Object = args[0], args[1]
			if reverse {
				original, err := fleet.Original(cmd.Context(), name)
				if err != nil {
					return err
				}
				return f.session.terminal.Print("%s", strings.TrimPrefix(original.String(), "/"))
			}
			copies, err := fleet.Copies(cmd.Context(), name)
			for _, one := range copies {
				err = errors.Join(err, f.session.terminal.Print("%s", strings.TrimPrefix(one.String(), "/")))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&name.Cluster, "remote", "", "The Cluster whose remote has the original or the copy. Required")
	cmd.Flags().BoolVar(&reverse, "reverse", false, "The name is that of a copy; print the name of its original (default false)")
	f.bindRemotes(cmd.Flags())
	f.bind(p, cmd)
	f.completeRemote(cmd)
	return cmd
}

func ruleAndObject(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s needs the name of a rule and the name of an object; type %s", cmd.CommandPath(), cmd.UseLine())
	}
	return nil
}

// parseKind reads a kind, written as v1/Secret or apps/v1/Deployment.
func parseKind(text string) (schema.GroupVersionKind, error) {
	i := strings.LastIndexByte(text, '/')
	if i < 1 || i == len(text)-1 {
		return schema.GroupVersionKind{}, fmt.Errorf("--kind=%q: write it as v1/Secret or apps/v1/Deployment", text)
	}
	version, err := schema.ParseGroupVersion(text[:i])
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("--kind=%q: %w", text, err)
	}
	return version.WithKind(text[i+1:]), nil
}
