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
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

const rbacExample = `  # All roles
  %s rbac

  # The permissions of the hub's user in each remote, for two of the modules
  %s rbac --in remote --modules inventory,podcount | kubectl --context my-remote apply -f -

  # For the modules as they are configured, and with the flags in the file
  %s rbac --config hub.yaml

  # What a rule of sync needs in a remote, for the owner of the remote
  kubectl get syncrule pull-secrets -o yaml | %s rbac --in remote --rules - | kubectl --context my-remote apply -f -

  # The users of the NATS server with the entities
  %s rbac --in nats > users.conf

  # The roles of a hub whose apps act as users of their own
  %s rbac --in hub --impersonate-apps | kubectl apply -f -`

type rbacFlags struct {
	side, config, rules, cluster string
	format                       output.Format
	modules                      []string
	hub                          roles.Hub
}

func newRBAC(p Program) *cobra.Command {
	f := rbacFlags{format: output.YAML}
	s := &session{program: p}
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the roles that the hub and its modules need",
		Long: "Print the roles that this hub needs in its own cluster and in every remote: the permissions of the hub\n" +
			"itself, and the permissions that its modules declare. Bind them to the hub's ServiceAccount, and to the\n" +
			"user of the kubeconfigs. The role in the remote is for the modules that select remotes by themselves:\n" +
			"--modules names others, also those on request, such as tenants, whose account is cluster-admin of the remote, and\n" +
			"--cluster reads from the hub what one Cluster runs. Without it no cluster is read.\n\n" +
			"The permissions of a module may follow from its configuration. --config names the configuration file of the hub:\n" +
			"the roles then have the permissions for all remotes, with and without each override, and the flags in the file\n" +
			"apply, too. register grants the permissions for one remote.\n\n" +
			"With --rules it prints instead the roles for rules of sync, which the hub never grants itself: with --in hub bound to the\n" +
			"hub's ServiceAccount, with --in remote labelled, so that the hub's account there, made by register, has them.\n" +
			"The resource of a kind is that of the rule, or else that of the hub's API server.\n\n" +
			"With --in nats it prints the users of the NATS server with the entities of modules: the hub, and a user who\n" +
			"writes entities, as configuration of nats-server. Put their public nkeys into it.\n\n" +
			"With --impersonate-apps, an app acts in the hub as a ServiceAccount with the name of its Cluster, in a\n" +
			"namespace that holds nothing else. Bind clusterfx-apps to the group\n" +
			rbac.HubGroup("NAMESPACE") + ", or narrower roles to the ServiceAccounts, which need not exist.\n" +
			"The hub may impersonate these ServiceAccounts and no other user.",
		Example: p.example(rbacExample),
		Args:    output.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.rules != "" {
				return f.printRules(cmd, s)
			}
			modules, err := f.configured(p, cmd.Flags())
			if err != nil {
				return err
			}
			if f.side == "nats" {
				return f.printNATS(p)
			}
			roles, err := f.roles(cmd.Context(), s, modules)
			if err != nil {
				return err
			}
			f.warn(p)
			return output.PrintObjects(p.Stdout, f.format, roles)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.side, "in", "", "Print the roles for one side only: hub or remote; or the users of a NATS server: nats. Default: hub and remote")
	flags.VarP(output.OneOf(&f.format, output.YAML, output.JSON), "output", "o", "yaml or json")
	flags.StringVar(&f.config, hubconfig.ConfigFlag, "",
		"File of kind "+hubconfig.Kind+" of the hub, as run --config reads it. Default: none, the defaults of the modules")
	flags.StringVar(&f.rules, rulesFlag, "", "Only what the SyncRules in this file need, - for standard input. Default: none")
	flags.StringSliceVar(&f.modules, "modules", nil, "Only for these modules. Default: in the hub all, in a remote those that select remotes by themselves")
	flags.StringVar(&f.cluster, "cluster", "", "In the remote, for the modules that this Cluster runs. Default: none")
	flags.StringVar(&f.hub.Namespace, "credentials-namespace", hubv1.DefaultNamespace, "The namespace of the hub's Secrets")
	flags.BoolVar(&f.hub.Impersonate, "impersonate-apps", false, "For a hub that runs with the flag of the same name (default false)")
	flags.StringVar(&f.hub.AppsNamespace, "apps-namespace", "", hubconfig.AppsNamespaceHelp)
	s.bind(cmd, false)
	return cmd
}

func (f *rbacFlags) printRules(cmd *cobra.Command, s *session) error {
	if f.side != "hub" && f.side != "remote" {
		return fmt.Errorf("--%s: say for which side, with --in hub or --in remote", rulesFlag)
	}
	all, err := readRules(cmd, f.rules)
	if err != nil {
		return err
	}
	var objects []client.Object
	for _, r := range all {
		if r.Kind.Resource == "" { // Only then a cluster is read.
			hub, err := s.hub.Hub()
			if err != nil {
				return err
			}
			if err := roles.FindResource(hub.RESTMapper(), &r); err != nil {
				return hub.Explain(err)
			}
		}
		if f.side == "hub" {
			objects = append(objects, f.hub.OfRule(r)...)
		} else {
			objects = append(objects, roles.OfRuleInRemote(r))
		}
	}
	return output.PrintObjects(s.program.Stdout, f.format, objects)
}

// configured returns the modules with the configuration in the file of --config, and applies the flags in the file that rbac has,
// too.
func (f *rbacFlags) configured(p Program, set *pflag.FlagSet) ([]registry.Module, error) {
	if f.config == "" {
		return p.Modules, nil
	}
	modules, file, err := p.configuredBy(f.config)
	if err != nil {
		return nil, err
	}
	var problems []error
	set.VisitAll(func(flag *pflag.Flag) {
		if !flag.Changed && file.InFile(flag.Name) {
			problems = append(problems, flag.Value.Set(file.Value(flag.Name)))
		}
	})
	return modules, errors.Join(problems...)
}

func (f *rbacFlags) warn(p Program) {
	picked, err := pick(p.Modules, f.modules)
	if depend := withConfigRules(picked); err == nil && f.config == "" && len(depend) > 0 {
		_, _ = fmt.Fprintf(p.Stderr, "Warning: the permissions of %s follow from the configuration of the hub, and are those of the defaults here; "+
			"name the file of the hub with --%s\n", moduleNames(depend), hubconfig.ConfigFlag)
	}
}

func (f *rbacFlags) inRemote(ctx context.Context, s *session, modules []registry.Module) ([]registry.Module, error) {
	switch {
	case f.cluster == "" && len(f.modules) > 0:
		return modules, nil
	case f.cluster == "":
		return slices.DeleteFunc(slices.Clone(modules), registry.Module.IsOnRequest), nil
	}
	hub, err := s.hub.Hub()
	if err != nil {
		return nil, err
	}
	var one hubv1.Cluster
	if err := hub.Get(ctx, client.ObjectKey{Name: f.cluster}, &one); err != nil {
		return nil, hub.Explain(fmt.Errorf("read the Cluster %s: %w", f.cluster, err))
	}
	return registry.SelectModules(modules, one.Labels, one.Spec.Modules), nil
}

func (f *rbacFlags) roles(ctx context.Context, s *session, all []registry.Module) ([]client.Object, error) {
	modules, err := pick(all, f.modules)
	if err != nil {
		return nil, err
	}
	if err := hubconfig.CheckAppsNamespace(f.hub.Impersonate, f.hub.AppsNamespace, f.hub.Namespace); err != nil {
		return nil, err
	}
	if f.side == "hub" {
		return f.hub.Roles(modules), nil
	}
	inRemote, err := f.inRemote(ctx, s, modules)
	switch {
	case err != nil:
		return nil, err
	case f.side == "":
		return append(f.hub.Roles(modules), roles.OfRemote(inRemote)), nil
	case f.side == "remote":
		return []client.Object{roles.OfRemote(inRemote)}, nil
	}
	return nil, fmt.Errorf("--in=%q: use hub, remote or nats", f.side)
}

// pick returns the modules with these names, all for none.
func pick(all []registry.Module, wanted []string) ([]registry.Module, error) {
	if len(wanted) == 0 {
		return all, nil
	}
	var picked []registry.Module
	for _, name := range wanted {
		i := slices.IndexFunc(all, func(m registry.Module) bool { return m.Name() == name })
		if i < 0 {
			return nil, fmt.Errorf("--modules: this hub has no module %q; it has %s", name, strings.Join(names(all), ", "))
		}
		picked = append(picked, all[i])
	}
	return picked, nil
}

var errNoBuckets = errors.New("no module reads entities, so the hub needs no user of NATS")

func (f *rbacFlags) printNATS(p Program) error {
	picked, err := pick(p.Modules, f.modules)
	if err != nil {
		return err
	}
	var buckets []string
	for _, m := range picked {
		for _, input := range m.Inputs() {
			buckets = append(buckets, input.Name)
		}
	}
	if len(buckets) == 0 {
		return errNoBuckets
	}
	_, err = io.WriteString(p.Stdout, roles.OfNATS(buckets...))
	return err
}
