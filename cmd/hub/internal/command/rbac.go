// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

const rbacExample = `  # All roles
  %s rbac

  # The permissions of the hub's user in each remote, for two of the modules
  %s rbac --in remote --modules inventory,podcount | kubectl --context my-remote apply -f -

  # The roles of a hub whose apps act as users of their own
  %s rbac --in hub --impersonate-apps | kubectl apply -f -`

// rbacFlags are the flags of the command rbac.
type rbacFlags struct {
	side, format string
	modules      []string
	hub          roles.Hub
}

func newRBAC(p Program) *cobra.Command {
	var f rbacFlags
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the roles that the hub and its modules need",
		Long: "Print the roles that this hub needs in its own cluster and in every remote: the permissions of the hub\n" +
			"itself, and the permissions that its modules declare. Bind them to the hub's ServiceAccount, and to the\n" +
			"user of the kubeconfigs. It reads no cluster.\n\n" +
			"With --impersonate-apps, an app acts in the hub as a ServiceAccount with the name of its Cluster, in a\n" +
			"namespace that holds nothing else. Bind clusterfx-apps to the group\n" +
			rbac.HubGroup("NAMESPACE") + ", or narrower roles to the ServiceAccounts, which need not exist.\n" +
			"The hub may impersonate these ServiceAccounts and no other user.",
		Example: p.example(rbacExample),
		Args:    arguments.None,
		RunE: func(*cobra.Command, []string) error {
			roles, err := f.roles(p.Modules)
			if err != nil {
				return err
			}
			return printObjects(p.Stdout, f.format, roles)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.side, "in", "", "Print the roles for one side only: hub or remote. Default: both")
	flags.StringVarP(&f.format, "output", "o", "yaml", "yaml or json")
	flags.StringSliceVar(&f.modules, "modules", nil, "Only for these modules. Default: all that this hub has")
	flags.StringVar(&f.hub.Namespace, "credentials-namespace", hubv1.DefaultNamespace, "The namespace of the hub's Secrets")
	flags.StringVar(&f.hub.Lease, "leader-elect-id", roles.Lease, "Name of the hub's lease")
	flags.StringVar(&f.hub.LeaseNamespace, "leader-elect-namespace", "", "Namespace of the lease. Default: the credentials namespace")
	flags.BoolVar(&f.hub.Impersonate, "impersonate-apps", false, "For a hub that runs with the flag of the same name (default false)")
	flags.StringVar(&f.hub.AppsNamespace, "apps-namespace", "", hubconfig.AppsNamespaceHelp)
	return cmd
}

func (f *rbacFlags) roles(all []registry.Module) ([]client.Object, error) {
	modules, err := pick(all, f.modules)
	if err != nil {
		return nil, err
	}
	if err := hubconfig.CheckAppsNamespace(f.hub.Impersonate, f.hub.AppsNamespace, f.hub.Namespace, f.hub.LeaseNamespace); err != nil {
		return nil, err
	}
	switch f.side {
	case "":
		return append(f.hub.Roles(modules), roles.OfRemote(modules)), nil
	case "hub":
		return f.hub.Roles(modules), nil
	case "remote":
		return []client.Object{roles.OfRemote(modules)}, nil
	}
	return nil, fmt.Errorf("--in=%q: use hub or remote", f.side)
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

// printObjects writes objects so that kubectl apply -f - takes them.
func printObjects(w io.Writer, format string, objects []client.Object) error {
	switch format {
	case "json":
		list := metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
		for _, o := range objects {
			list.Items = append(list.Items, runtime.RawExtension{Object: o})
		}
		text, err := json.MarshalIndent(list, "", "  ")
		if err != nil {
			return fmt.Errorf("write the roles: %w", err)
		}
		_, err = fmt.Fprintln(w, string(text))
		return err
	case "yaml":
		for _, o := range objects {
			text, err := yaml.Marshal(o)
			if err != nil {
				return fmt.Errorf("write the roles: %w", err)
			}
			if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("--output=%q: use yaml or json", format)
}
