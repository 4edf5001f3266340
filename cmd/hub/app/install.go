// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
)

const installExample = `  # Into the cluster of the current context
  %s install

  # The same with kubectl, which shows what would change first
  %s install --export | kubectl diff --server-side -f -
  %s install --export | kubectl apply --server-side -f -

  # A hub of your own, in a namespace of your own
  %s install --namespace fleet --image registry.example.com/my-hub:v1`

// installFlags are the flags of the command install.
type installFlags struct {
	options install.Options
	apply   install.ApplyOptions
	export  bool
	yes     bool
	dry     string
	wait    bool
	timeout time.Duration
}

func newInstall(p program) *cobra.Command {
	var f installFlags
	var s *session
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install this hub into its cluster, or print the manifests",
		Long: "Install this hub: its CRD, namespace, roles with the rights of the modules in it, Deployment,\n" +
			"PodDisruptionBudget, Service and NetworkPolicy. Everything is applied on the server's side, so that the same\n" +
			"command upgrades, too. --export prints the manifests instead and asks no cluster. A dry run of the server\n" +
			"needs the namespace, which is all that it would not find.\n\n" +
			"It waits until the Pods of the hub are ready, and says what keeps them from being so.\n\n" +
			"A hub with modules of your own needs --image: the stock hub's image does not have them.\n\n" +
			connectionHelp + "\n\n" + exitCodesWaiting,
		Example: p.example(installExample),
		Args:    arguments.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			objects, err := f.objects(p)
			if err != nil {
				return err
			}
			if f.export {
				return install.Write(p.stdout, objects)
			}
			return f.run(cmd.Context(), s, objects)
		},
	}
	set := cmd.Flags()
	set.BoolVar(&f.export, "export", false, "Print the manifests and do nothing else (default false)")
	set.StringVarP(&f.options.Namespace, "namespace", "n", hubv1.DefaultNamespace,
		"The namespace of the hub, which is its credentials namespace, too")
	set.StringVar(&f.options.Image, "image", "", "Image of the hub. Default: the stock hub's, of this version if it is a release; a hub of your own has none")
	set.Int32Var(&f.options.Replicas, "replicas", 0, "How many hubs; one works, the others stand by. Default: 2")
	set.BoolVar(&f.options.Impersonate, "impersonate-apps", false, "Install a hub that runs with the flag of the same name (default false)")
	set.StringVar(&f.options.AppsNamespace, "apps-namespace", "", appsNamespaceHelp)
	set.BoolVar(&f.apply.ForceConflicts, "force-conflicts", false, "Take over fields that other field managers own; arguments that were added to the Deployment are lost (default false)")
	set.BoolVarP(&f.yes, "yes", "y", false, "Do not ask (default false)")
	set.BoolVar(&f.wait, "wait", true, "Wait until the hub's Pods are ready")
	set.DurationVar(&f.timeout, "timeout", defaultWait, "How long to wait for the hub's Pods")
	bindDryRun(cmd, &f.dry)
	s = p.newSession(cmd)
	s.bind(set)
	return cmd
}

// objects checks the flags and returns what is to be installed.
func (f *installFlags) objects(p program) ([]*unstructured.Unstructured, error) {
	if problems := validation.IsDNS1123Label(f.options.Namespace); len(problems) > 0 {
		return nil, fmt.Errorf("--namespace=%q is not a name: %s", f.options.Namespace, strings.Join(problems, "; "))
	}
	if err := checkAppsNamespace(f.options.Impersonate, f.options.AppsNamespace, f.options.Namespace, ""); err != nil {
		return nil, err
	}
	if f.options.Replicas < 0 {
		return nil, fmt.Errorf("--replicas=%d: use 1 or more", f.options.Replicas)
	}
	if err := checkPositive("timeout", f.timeout); err != nil {
		return nil, err
	}
	if f.options.Image == "" {
		image, err := p.defaultImage()
		if err != nil {
			return nil, err
		}
		f.options.Image = image
	}
	f.options.Rules = hubRules(p.modules, defaultElectionID)
	return install.Objects(f.options)
}

// run applies the objects to the hub's cluster.
func (f *installFlags) run(ctx context.Context, s *session, objects []*unstructured.Unstructured) error {
	mode, err := parseDryRun(f.dry)
	if err != nil {
		return err
	}
	if mode == dryRunClient {
		return install.Write(s.terminal.Out, objects)
	}
	hub, err := s.hub.Hub()
	if err != nil {
		return err
	}
	if f.apply.DryRun = mode == dryRunServer; !f.apply.DryRun && !f.yes {
		question := fmt.Sprintf("Install the hub with %d objects into namespace %s?", len(objects), f.options.Namespace)
		if err := s.terminal.Ask(ctx, question); err != nil {
			return err
		}
	}
	operation := "serverside-applied"
	if f.apply.DryRun {
		operation += " (server dry run)"
	}
	var printing error
	f.apply.Applied = func(o *unstructured.Unstructured) {
		kind := o.GroupVersionKind().GroupKind()
		printing = errors.Join(printing, s.terminal.Print("%s/%s %s", strings.ToLower(kind.String()), o.GetName(), operation))
	}
	c, err := client.New(hub.Config, client.Options{HTTPClient: hub.HTTP}) // one that asks for the kinds
	if err != nil {
		return hub.Explain(err)
	}
	if err := install.Apply(ctx, c, objects, f.apply); err != nil {
		return hub.Explain(err)
	}
	left, err := install.Leftovers(ctx, c, objects)
	for _, warning := range left {
		s.terminal.Warn("%s", warning)
	}
	if err := errors.Join(printing, hub.Explain(err)); err != nil || !f.wait || f.apply.DryRun {
		return err
	}
	return f.await(ctx, s, hub, c)
}

// await waits until the hub runs.
func (f *installFlags) await(ctx context.Context, s *session, hub *access.Cluster, c client.Client) error {
	s.terminal.Step("waiting until the hub's Pods are ready, for %s", f.timeout)
	begin := time.Now()
	ready, err := install.Rollout{
		Namespace: f.options.Namespace, Timeout: f.timeout, Progress: func(text string) { s.terminal.Step("%s", text) },
	}.Wait(ctx, c)
	if errors.Is(err, install.ErrNotRunning) {
		return err
	}
	if err != nil {
		return hub.Explain(err)
	}
	s.terminal.Done("the hub runs in %d Pods after %s", ready, time.Since(begin).Round(100*time.Millisecond))
	s.terminal.Text("Next: %s check%s", s.program.name(), f.namespaceFlag())
	return nil
}

// namespaceFlag is what other commands need to find this installation.
func (f *installFlags) namespaceFlag() string {
	if f.options.Namespace == hubv1.DefaultNamespace {
		return ""
	}
	return " --credentials-namespace " + f.options.Namespace
}
