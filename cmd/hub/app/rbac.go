// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/renewal"
	"github.com/clusterfx/clusterfx/registry"
)

const rbacExample = `  # All roles
  %s rbac

  # What the hub's user may do in each remote, for two of the modules
  %s rbac --in remote --modules inventory,podcount | kubectl --context my-remote apply -f -

  # The roles of a hub whose apps act as users of their own
  %s rbac --in hub --impersonate-apps | kubectl apply -f -`

// rbacFlags are the flags of the command rbac.
type rbacFlags struct {
	side, format string
	modules      []string
	namespace    string
	lease        string
	impersonate  bool
	// appsNamespace is the one whose ServiceAccounts the apps act as.
	appsNamespace string
}

func newRBAC(p program) *cobra.Command {
	var f rbacFlags
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the roles that the hub and its modules need",
		Long: "Print the roles that this hub needs in its own cluster and in every remote: what the hub does by\n" +
			"itself, and the rights that the modules in it declare. Bind them to the hub's ServiceAccount, and to the\n" +
			"user of the kubeconfigs. It reads no cluster.\n\n" +
			"With --impersonate-apps, what an app does in the hub it does as a ServiceAccount of a namespace that holds\n" +
			"nothing else, with the name of its Cluster. Bind clusterfx-apps to the group\n" +
			registry.HubGroup("NAMESPACE") + ", or narrower roles to the ServiceAccounts, which need not exist.\n" +
			"The hub may impersonate these ServiceAccounts and no other user.",
		Example: p.example(rbacExample),
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			roles, err := f.roles(p.modules)
			if err != nil {
				return err
			}
			return printObjects(p.stdout, f.format, roles)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.side, "in", "", "Print the roles for one side only: hub or remote. Default: both")
	flags.StringVarP(&f.format, "output", "o", "yaml", "yaml or json")
	flags.StringSliceVar(&f.modules, "modules", nil, "Only for these modules. Default: all that this hub has")
	flags.StringVar(&f.namespace, "credentials-namespace", hubv1.DefaultNamespace, "The namespace of the hub's Secrets and its lease")
	flags.StringVar(&f.lease, "leader-elect-id", defaultElectionID, "Name of the hub's lease")
	flags.BoolVar(&f.impersonate, "impersonate-apps", false, "For a hub that runs with the flag of the same name (default false)")
	flags.StringVar(&f.appsNamespace, "apps-namespace", "", appsNamespaceHelp)
	return cmd
}

// Names of the roles.
const (
	hubRole    = "clusterfx-hub"
	remoteRole = "clusterfx-remote"
)

func (f *rbacFlags) roles(all []registry.Module) ([]client.Object, error) {
	modules, err := pick(all, f.modules)
	if err != nil {
		return nil, err
	}
	if err := checkAppsNamespace(f.impersonate, f.appsNamespace, f.namespace); err != nil {
		return nil, err
	}
	switch f.side {
	case "":
		return append(f.inHub(modules), inRemote(modules)), nil
	case "hub":
		return f.inHub(modules), nil
	case "remote":
		return []client.Object{inRemote(modules)}, nil
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

// inHub returns the roles in the hub's cluster.
func (f *rbacFlags) inHub(modules []registry.Module) []client.Object {
	var all []client.Object
	if f.impersonate {
		all = f.ofApps(modules)
	}
	rules := hubRules(modules, f.lease)
	all = append(all,
		clusterRole(hubRole, rules.Everywhere),
		role(f.namespace, hubRole, rules.Own),
		role(metav1.NamespaceDefault, hubRole, rules.Events),
	)
	for _, needed := range rules.Modules {
		all = append(all, roleFor(install.ModulesRole, needed))
	}
	return all
}

// ofApps returns the namespace of the ServiceAccounts that the apps act as, the role by which the hub may impersonate
// these and no other user, and the roles of the apps.
func (f *rbacFlags) ofApps(modules []registry.Module) []client.Object {
	namespace := cmp.Or(f.appsNamespace, install.AppsNamespace(f.namespace))
	all := []client.Object{
		&corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
		},
		role(namespace, hubRole, []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}},
		}),
	}
	for _, needed := range registry.HubRules(modules...) {
		all = append(all, roleFor(install.AppsRole, needed))
	}
	return all
}

// hubRules returns the permissions of a hub with these modules, and a Lease of this name, in its own cluster.
func hubRules(modules []registry.Module, lease string) *install.Rules {
	leases := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: verbs}
	}
	named := leases("get", "update")
	named.ResourceNames = []string{lease}
	rules := &install.Rules{
		Everywhere: append(cluster.Rules(), rbacv1.PolicyRule{ // by which the hub is told from its remotes
			APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem}, Verbs: []string{"get"},
		}),
		Own:    slices.Concat(cluster.CredentialsRules(), partreport.Rules(), renewal.Rules(), cluster.EventRules(), []rbacv1.PolicyRule{leases("create"), named}),
		Events: cluster.EventRules(),
	}
	for _, needed := range registry.HubRules(modules...) {
		if needed.Namespace == "" {
			rules.Everywhere = append(rules.Everywhere, needed.Rules...)
			rules.Apps = needed.Rules
		} else {
			rules.Modules = append(rules.Modules, needed)
		}
	}
	return rules
}

// roleFor returns the role that grants rules where they apply.
func roleFor(name string, needed registry.NamespacedRules) client.Object {
	if needed.Namespace == "" {
		return clusterRole(name, needed.Rules)
	}
	return role(needed.Namespace, name, needed.Rules)
}

// inRemote returns the role in every remote.
func inRemote(modules []registry.Module) client.Object {
	return clusterRole(remoteRole, registry.RemoteRules(modules...))
}

func clusterRole(name string, rules []rbacv1.PolicyRule) client.Object {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      rules,
	}
}

func role(namespace, name string, rules []rbacv1.PolicyRule) client.Object {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Rules:      rules,
	}
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
