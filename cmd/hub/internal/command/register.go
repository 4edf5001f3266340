// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

const registerExample = `  # Register the cluster that a context leads to
  %s register edge-eu-1 --cluster-context edge-eu-1-admin

  # With labels, only some modules, and a token that does not expire
  %s register edge-eu-1 --cluster-context edge-eu-1-admin -l region=eu,tier=edge --modules inventory --token-type secret

  # At another address than the kubeconfig's, without a question
  %s register edge-eu-1 --cluster-context edge-eu-1-admin --cluster-server https://10.4.0.11:6443 --yes

  # A remote that the hub cannot reach: an agent in it connects to the hub
  %s register edge-eu-1 --cluster-context edge-eu-1-admin --tunnel wss://hub.example.com

  # The same with another person, who administers the remote, applies this there, and sends what hub accept needs
  %s register edge-eu-1 --tunnel wss://hub.example.com --export > edge-eu-1.yaml

  # A second account for the command rehearse, which may only dry-run
  %s register edge-eu-1 --cluster-context edge-eu-1-admin --rehearsal

  # Print the objects that it would create, as YAML
  %s register edge-eu-1 --cluster-context edge-eu-1-admin --dry-run=client -o yaml`

// defaultLifetime is the lifetime of a requested token. The hub renews it after two thirds of that, so
// that it may be away for the last third.
const defaultLifetime = 30 * 24 * time.Hour

const defaultWait = 2 * time.Minute

type registerFlags struct {
	remote  access.RemoteFlags
	todo    enroll.Registration
	format  output.Format
	dry     dryRun
	config  string
	wait    bool
	agent   enroll.Agent // used with a Hub
	export  bool
	session *session
}

func newRegister(p Program) *cobra.Command {
	f := &registerFlags{}
	cmd := &cobra.Command{
		Use:   "register NAME --cluster-context CONTEXT",
		Short: "Register a remote: make an account for the hub in it, and a Cluster in the hub",
		Long: "Register a remote. In the remote, register creates a ServiceAccount, a ClusterRole, a binding and a token; in\n" +
			"the hub, a Secret with the token and a Cluster. The ClusterRole grants only the permissions declared by the\n" +
			"modules that the labels of the Cluster or --modules select. register prints its plan, asks for confirmation,\n" +
			"and waits until the Cluster is Ready. It completes an earlier run that was interrupted. deregister undoes\n" +
			"all of it.\n\n" +
			"The ClusterRole does not follow changes by itself. When the labels or spec.modules of the Cluster have\n" +
			"changed, the condition Authorized names the missing permissions, and the same command updates the\n" +
			"ClusterRole: it adds the permissions that the Cluster now needs and removes all others.\n\n" +
			"The permissions of a module may follow from its configuration for the labels of the Cluster. For such modules,\n" +
			"register reads the configuration file of the installed hub, or that of --config.\n\n" +
			"With --tunnel, the hub does not connect to the remote. register installs an agent in the remote, which connects to\n" +
			"the listener of the hub (--tunnel-bind-address of hub run) at the address that the flag names. The agent makes the\n" +
			"remote's API server reachable for the hub, and nothing else. With --export, register prints the manifest for the\n" +
			"remote instead, and the Cluster waits for hub accept.\n\n" +
			connectionHelp + "\n\n" + exitCodesWaiting,
		Example: p.example(registerExample),
		Args:    output.OneName("a name for the Cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0])
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	set, r := cmd.Flags(), &f.todo
	f.remote.Bind(set)
	set.StringVar(&r.Server, "cluster-server", "", "URL at which the hub reaches the remote. Default: the URL in the kubeconfig")
	set.StringToStringVarP(&r.Labels, "labels", "l", nil, "Labels of the Cluster, as in region=eu,tier=edge")
	set.StringSliceVar(&r.Modules, "modules", nil, "Run only these modules, and grant only their permissions. Default: all modules that select the Cluster")
	bindConfig(set, &f.config)
	set.StringVar(&r.Account.Name, "service-account", "", "Name of the ServiceAccount, the role and the binding in the remote. Default: clusterfx-NAME")
	set.StringVar(&r.Account.Namespace, "service-account-namespace", "kube-system", "Namespace of the ServiceAccount, which exists")
	r.Token = enroll.Requested
	set.Var(output.OneOf(&r.Token, enroll.Requested, enroll.Lasting), "token-type", "request for a token that expires, secret for a token that does not")
	bindLifetime(set, &r.Lifetime)
	set.StringVar(&f.agent.Hub, "tunnel", "", "Address of the hub for an agent in the remote, as wss://hub.example.com: the hub cannot reach the remote. Default: it can")
	set.StringVar(&f.agent.Namespace, "agent-namespace", enroll.AgentNamespace, "Namespace of the agent in the remote, which is created")
	set.StringVar(&f.agent.Image, "agent-image", "", "Image of the agent. Default: that of the stock hub")
	set.BoolVar(&f.export, "export", false, "With --tunnel, print the objects for the remote, for its administrator (default false)")
	set.BoolVar(&r.AllowHub, "allow-hub", false, "Register the hub's own cluster (default false)")
	set.BoolVar(&r.Rehearsal, "rehearsal", false, "Make a second account for a registered Cluster, which may only dry-run, for the command rehearse (default false)")
	bindPlace(cmd, &r.Place, &f.wait)
	bindDryRun(set, &f.dry)
	f.format.Bind(set, "With --dry-run, yaml or json: print the objects")
	f.session = (&session{program: p}).bind(cmd, true)
	complete(cmd, "modules", p.completeModules)
	return cmd
}

func bindLifetime(set *pflag.FlagSet, to *time.Duration) {
	set.DurationVar(to, "token-lifetime", defaultLifetime, "How long a token that expires is good for; the remote may allow less")
}

func checkLifetime(of time.Duration) error {
	if of < 10*time.Minute {
		return fmt.Errorf("--token-lifetime=%s: Kubernetes issues tokens for ten minutes or longer", of)
	}
	return nil
}

// bindPlace adds the flags of commands that change both clusters.
func bindPlace(cmd *cobra.Command, place *enroll.Place, wait *bool) {
	set := cmd.Flags()
	set.BoolVarP(&place.Yes, "yes", "y", false, "Do not ask (default false)")
	if wait != nil {
		set.BoolVar(wait, "wait", true, "Wait until the Cluster is Ready")
	}
	set.DurationVar(&place.Timeout, "timeout", defaultWait, "How long to wait for the hub")
}

func (f *registerFlags) run(ctx context.Context, name string) error {
	if err := f.complete(name); err != nil {
		return err
	}
	r := &f.todo
	if err := r.Prepare(ctx); err != nil {
		return err
	}
	labels, names := r.Selecting()
	if _, err := pick(f.session.program.Modules, names); err != nil {
		return fmt.Errorf("the modules of Cluster %s: %w", name, err)
	}
	modules, err := f.session.modules(ctx, f.config, registry.SelectModules(f.session.program.Modules, labels, names))
	if err != nil {
		return err
	}
	r.Account.Rules = rbac.RemoteRules(registry.SelectModules(modules, labels, names)...)
	if f.export {
		return f.exportRemote(ctx)
	}
	if r.Rehearsal {
		if err := r.Limit(ctx); err != nil {
			return err
		}
	}
	if f.dry == dryRunClient {
		return f.print(r)
	}
	if err := r.RequireRights(ctx); err != nil {
		return err
	}
	if f.dry == dryRunServer {
		return errors.Join(r.DryRun(ctx), f.print(r))
	}
	if err := r.Run(ctx); err != nil {
		return err
	}
	if r.Rehearsal {
		return f.session.terminal.Print("cluster.clusterfx.dev/%s registered for rehearsals", name)
	}
	f.session.terminal.Text("Next: %s describe %s%s", f.session.program.name(), name, f.session.hub.Again())
	return f.session.terminal.Print("cluster.clusterfx.dev/%s registered", name)
}

const exportHead = `# For the administrator of the remote. Apply this there, then send to the administrator of the hub, by a way that both trust:
# the fingerprint in the log of the agent's key, and the token:
#   kubectl logs -n %s job/clusterfx-agent-key
#   kubectl get secret -n %s %s -o yaml > token.yaml
# The administrator of the hub runs: hub accept %s FINGERPRINT --token-file token.yaml
`

func (f *registerFlags) exportRemote(ctx context.Context) error {
	r := &f.todo
	if err := r.RequireRights(ctx); err != nil {
		return err
	}
	objects, err := r.Export(ctx)
	if err != nil {
		return err
	}
	if err := f.session.terminal.Print(strings.TrimSuffix(exportHead, "\n"), f.agent.Namespace, r.Account.Namespace, r.Account.Name, r.Name); err != nil {
		return err
	}
	return output.PrintObjects(f.session.terminal.Out, output.YAML, objects)
}

func (f *registerFlags) complete(name string) error {
	r, p := &f.todo, f.session.program
	if f.dry == dryRunNone && !f.format.Tabular() {
		return errors.New("--output goes with --dry-run: the objects are printed then, and not created")
	}
	if err := checkLifetime(r.Lifetime); err != nil {
		return err
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("%q is not a name for a Cluster: %s", name, strings.Join(problems, "; "))
	}
	if _, err := pick(p.Modules, r.Modules); err != nil {
		return err
	}
	if !f.wait {
		r.Timeout = 0
	}
	r.Policy = f.session.hub.Dev().Policy
	if f.agent.Hub != "" {
		r.Agent = &f.agent
	}
	hub, err := f.session.hub.Hub()
	if err != nil {
		return err
	}
	if f.export {
		if r.Agent == nil || f.remote.Given() || f.dry != dryRunNone {
			return errors.New("--export goes with --tunnel, and without --cluster-context and --dry-run")
		}
		r.Token = enroll.Lasting
		f.session.placeHub(&r.Place, hub, name)
		return nil
	}
	if err := f.session.place(&r.Place, hub, name, &f.remote); err != nil {
		return err
	}
	r.Entry, _, err = f.remote.Raw()
	return err
}

// place fills in the clusters of a command. A remote without a connection is an error.
func (s *session) place(place *enroll.Place, hub *access.Cluster, name string, remote *access.RemoteFlags) (err error) {
	s.placeHub(place, hub, name)
	place.Remote, err = remote.Remote()
	return err
}

func (f *registerFlags) print(r *enroll.Registration) error {
	remote, hub := r.Objects()
	if f.format.Tabular() {
		r.Plan()
		for _, o := range append(remote, hub...) {
			if err := output.PrintDone(f.session.terminal.Out, o, "created (dry run)"); err != nil {
				return err
			}
		}
		return nil
	}
	if f.format == output.YAML {
		return f.printYAML(remote, hub)
	}
	return output.PrintObjects(f.session.terminal.Out, f.format, append(remote, hub...))
}

// printYAML says of the objects where they belong.
func (f *registerFlags) printYAML(remote, hub []client.Object) error {
	t := f.session.terminal
	return errors.Join(t.Print("# In the remote:"), output.PrintObjects(t.Out, output.YAML, remote),
		t.Print("# In the hub:"), output.PrintObjects(t.Out, output.YAML, hub))
}

const deregisterExample = `  # Undo a registration
  %s deregister edge-eu-1 --cluster-context edge-eu-1-admin

  # Show the objects that it would delete
  %s deregister edge-eu-1 --cluster-context edge-eu-1-admin --dry-run=server

  # The remote is gone
  %s deregister edge-eu-1 --force --yes`

func newDeregister(p Program) *cobra.Command {
	var remote access.RemoteFlags
	var todo enroll.Deregistration
	var dry dryRun
	s := &session{program: p}
	cmd := &cobra.Command{
		Use:   "deregister NAME",
		Short: "Undo a registration, in the hub and in the remote",
		Long: "Undo a registration: delete the Cluster, which has the modules clean up in the remote, then the hub's\n" +
			"account in the remote, and the Secret. It prints its plan and asks for confirmation. If register\n" +
			"did not create the Secret of the Cluster, deregister deletes only the Cluster, and the Secret if the hub has\n" +
			"created the Cluster from it.\n\n" +
			connectionHelp + "\n\n" + exitCodes,
		Example: p.example(deregisterExample),
		Args:    output.OneName("the name of the Cluster"),
		RunE: s.onHub(func(cmd *cobra.Command, hub *access.Cluster, args []string) (err error) {
			s.placeHub(&todo.Place, hub, args[0])
			if remote.Given() {
				if todo.Remote, err = remote.Remote(); err != nil {
					return err
				}
			}
			return deregister(cmd.Context(), s, &todo, dry)
		}),
	}
	set := cmd.Flags()
	remote.Bind(set)
	set.BoolVar(&todo.Force, "force", false, "Leave the account in the remote if that cannot be reached (default false)")
	bindPlace(cmd, &todo.Place, nil)
	bindDryRun(set, &dry)
	s.bind(cmd, true)
	cmd.ValidArgsFunction = s.completeClusters(false)
	return cmd
}

func deregister(ctx context.Context, s *session, todo *enroll.Deregistration, mode dryRun) error {
	if err := todo.Prepare(ctx); err != nil {
		return err
	}
	if mode != dryRunClient {
		if err := todo.RequireRights(ctx); err != nil {
			return err
		}
	}
	if mode != dryRunNone {
		todo.Plan()
		return s.terminal.Print("cluster.clusterfx.dev/%s deregistered (dry run)", todo.Name)
	}
	if err := todo.Run(ctx); err != nil {
		return err
	}
	return s.terminal.Print("cluster.clusterfx.dev/%s deregistered", todo.Name)
}

// placeHub fills in where a command works, but for the remote.
func (s *session) placeHub(place *enroll.Place, hub *access.Cluster, name string) {
	place.Terminal, place.Hub, place.Name, place.Namespace = s.terminal, hub, name, s.hub.Namespace
}
