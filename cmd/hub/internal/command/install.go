// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
)

const installExample = `  # Into the cluster of the current context
  %s install

  # The same with kubectl, which shows the changes first
  %s install --export | kubectl diff --server-side --force-conflicts -f -
  %s install --export | kubectl apply --server-side -f -

  # With flags and the configuration of modules in a file
  %s install --config hub.yaml

  # Three replicas that share the Clusters
  %s install --replicas 3 --active-replicas 0

  # A hub of your own, in a namespace of your own
  %s install --namespace fleet --image registry.example.com/my-hub:v1`

type installFlags struct {
	options   install.Options
	apply     install.ApplyOptions
	rehearsal bool
	export    bool
	yes       bool
	dry       dryRun
	wait      bool
	timeout   time.Duration
	active    int
	shards    int
	// config is the path of the configuration file, and named is true if a flag names the image.
	config string
	named  bool
}

func newInstall(p Program) *cobra.Command {
	var f installFlags
	s := &session{program: p}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install this hub into its cluster, or print the manifests",
		Long: "Install this hub: its CRD, namespace, roles with the permissions of its modules, Deployment,\n" +
			"PodDisruptionBudget, Service and NetworkPolicy. Everything is applied on the server's side, so that the same\n" +
			"command upgrades, too. --export prints the manifests instead and asks no cluster. A dry run of the server\n" +
			"needs the namespace, which is all that it would not find.\n\n" +
			"Of two replicas one works and the other stands by. --active-replicas lets several work, each on a part of the\n" +
			"Clusters. Name it again when you upgrade.\n\n" +
			"It waits until the Pods of the hub are ready, and prints the reason while they are not.\n\n" +
			"--config checks a configuration file as config validate does, with the modules of this program, and installs it in\n" +
			"the ConfigMap " + install.ConfigMapName + ". Another file replaces the Pods. Without --config an installed hub keeps the file\n" +
			"that it has, after the same check; a file with nothing but apiVersion and kind takes it back. --export and\n" +
			"--dry-run=client ask no cluster and so know no such file: name it again.\n\n" +
			"A CRD of a later version, with fields that this version lacks, stays as it is: so this command also takes a hub back to\n" +
			"an earlier version.\n\n" +
			"Before it asks for confirmation, it names the arguments of the installed hub that it would remove, such as\n" +
			"arguments added to the Deployment by hand, and how to keep them.\n\n" +
			"A hub with modules of your own needs --image: the stock hub's image does not have them. The stock hub does not\n" +
			"take the place of a hub with another image unless --image names an image.\n\n" +
			connectionHelp + "\n\n" + exitCodesWaiting,
		Example: p.example(installExample),
		Args:    output.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.addArgs(cmd.Flags())
			return f.run(cmd.Context(), s)
		},
	}
	f.bind(cmd)
	s.bind(cmd, false)
	return cmd
}

func (f *installFlags) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	set.BoolVar(&f.export, "export", false, "Print the manifests and do nothing else (default false)")
	set.StringVarP(&f.options.Namespace, "namespace", "n", hubv1.DefaultNamespace,
		"The namespace of the hub, which is its credentials namespace, too")
	set.StringVar(&f.config, hubconfig.ConfigFlag, "",
		"File of kind "+hubconfig.Kind+" for the hub, as run --config reads it. Default: the installed file, if there is one")
	set.StringVar(&f.options.Image, "image", "", "Image of the hub. Default: the stock hub's, of this version if it is a release; a hub of your own has none")
	set.Int32Var(&f.options.Replicas, "replicas", 2, "How many replicas of the hub")
	hubconfig.BindActive(set, &f.active)
	hubconfig.BindShards(set, &f.shards)
	set.BoolVar(&f.options.Impersonate, "impersonate-apps", false, "Install a hub that runs with the flag of the same name (default false)")
	set.StringVar(&f.options.AppsNamespace, "apps-namespace", "", hubconfig.AppsNamespaceHelp)
	set.BoolVar(&f.apply.ForceConflicts, "force-conflicts", false, "Take over fields that other field managers own and overwrite their values, such as arguments of the Deployment (default false)")
	set.BoolVarP(&f.yes, "yes", "y", false, "Do not ask (default false)")
	set.BoolVar(&f.wait, "wait", true, "Wait until the hub's Pods are ready")
	set.DurationVar(&f.timeout, "timeout", defaultWait, "How long to wait for the hub's Pods")
	set.BoolVar(&f.rehearsal, "rehearsal", false, "Install the account and the Job of the command rehearse, and not the hub (default false)")
	bindDryRun(set, &f.dry)
}

// addArgs gives the hub the flags of its replicas that differ from the defaults.
func (f *installFlags) addArgs(set *pflag.FlagSet) {
	for _, name := range replicaFlags() {
		if one := set.Lookup(name); one.Value.String() != one.DefValue {
			f.options.Args = append(f.options.Args, "--"+name+"="+one.Value.String())
		}
	}
}

// replicaFlags are flags of install that the hub gets as they are.
func replicaFlags() []string { return []string{"active-replicas", "shards"} }

func (f *installFlags) check(p Program) error {
	if problems := validation.IsDNS1123Label(f.options.Namespace); len(problems) > 0 {
		return fmt.Errorf("--namespace=%q is not a name: %s", f.options.Namespace, strings.Join(problems, "; "))
	}
	if err := hubconfig.CheckAppsNamespace(f.options.Impersonate, f.options.AppsNamespace, f.options.Namespace); err != nil {
		return err
	}
	if err := hubconfig.CheckReplicas(f.active, f.shards); err != nil {
		return err
	}
	if f.options.Replicas < 1 {
		return fmt.Errorf("--replicas=%d: use 1 or more", f.options.Replicas)
	}
	if err := hubconfig.CheckPositive("timeout", f.timeout); err != nil {
		return err
	}
	if f.named = f.options.Image != ""; !f.named {
		image, err := p.defaultImage()
		if err != nil {
			return err
		}
		f.options.Image = image
	}
	f.options.Rules = roles.OfHub(p.Modules)
	if f.config == "" {
		return nil
	}
	text, err := hubconfig.ReadText(f.config)
	if err != nil {
		return err
	}
	return f.takeConfig(p, f.config, text)
}

func (f *installFlags) run(ctx context.Context, s *session) error {
	if err := f.check(s.program); err != nil {
		return err
	}
	f.apply.DryRun = f.dry == dryRunServer
	if f.export || f.dry == dryRunClient {
		objects, err := f.objects(nil)
		if err != nil {
			return err
		}
		return output.PrintObjects(s.terminal.Out, output.YAML, objects)
	}
	hub, err := s.hub.Hub()
	if err != nil {
		return err
	}
	objects, err := f.prepare(ctx, s, hub)
	if err != nil {
		return err
	}
	objects, newer, err := install.WithoutOlderCRD(ctx, hub, objects)
	if err != nil {
		return hub.Explain(err)
	}
	if len(newer) > 0 {
		s.terminal.Warn("the CRD in the cluster is newer than this version of the hub and stays as it is; this version lacks its fields %s", strings.Join(newer, ", "))
	}
	s.terminal.Step("%d objects for namespace %s of the cluster at %s", len(objects), f.options.Namespace, hub.Config.Host)
	if !f.apply.DryRun && !f.yes {
		if err := s.terminal.Ask(ctx, "Install the hub there?"); err != nil {
			return err
		}
	}
	if err := f.applyAll(ctx, s, hub, objects); err != nil || f.apply.DryRun {
		return err
	}
	switch {
	case f.rehearsal:
		s.terminal.Text("Next: %s register NAME --rehearsal --cluster-context CONTEXT, for each remote; then\n"+
			"      kubectl -n %s create job --from=cronjob/%s rehearsal-1", s.program.name(), hubv1.RehearsalNamespace, roles.RehearsalAccount)
	case f.wait:
		return f.await(ctx, s, hub)
	}
	return nil
}

// objects are those of the hub, or those for rehearsals beside it. unlimited are aggregated groups.
func (f *installFlags) objects(unlimited []string) ([]*unstructured.Unstructured, error) {
	if f.rehearsal {
		return install.Rehearsal(f.options, unlimited)
	}
	return install.Objects(f.options)
}

// prepare returns the objects to apply over an existing installation, and prints which settings that keeps and loses.
func (f *installFlags) prepare(ctx context.Context, s *session, hub *access.Cluster) ([]*unstructured.Unstructured, error) {
	installed, err := install.Find(ctx, hub, f.options.Namespace)
	if err != nil {
		return nil, hub.Explain(err)
	}
	if err := f.checkImage(s.program, installed); err != nil {
		return nil, err
	}
	if f.config == "" && installed.Config != "" {
		// This program may have other modules than that of the installation.
		if err := f.takeConfig(s.program, "ConfigMap "+f.options.Namespace+"/"+install.ConfigMapName, []byte(installed.Config)); err != nil {
			return nil, unfit(err)
		}
		s.terminal.Step("the hub keeps the configuration in ConfigMap %s/%s; --%s names another one", f.options.Namespace, install.ConfigMapName, hubconfig.ConfigFlag)
	}
	if f.rehearsal { // The rules of sync are those of the cluster.
		if err := f.options.Rules.AddRules(ctx, hub, hub.RESTMapper()); err != nil {
			return nil, hub.Explain(err)
		}
		unlimited, err := enroll.Aggregated(ctx, hub)
		if err != nil {
			return nil, err
		}
		return f.objects(unlimited)
	}
	if f.config == "" && installed.UnusedConfig {
		s.terminal.Warn("ConfigMap %s/%s is not the configuration of the installed hub and is ignored; --%s replaces it with a file",
			f.options.Namespace, install.ConfigMapName, hubconfig.ConfigFlag)
	}
	objects, err := f.objects(nil)
	if err != nil {
		return nil, err
	}
	lost, err := installed.Lost(objects)
	if err != nil {
		return nil, err
	}
	f.warnLost(s, lost)
	return objects, nil
}

func (f *installFlags) applyAll(ctx context.Context, s *session, hub *access.Cluster, objects []*unstructured.Unstructured) error {
	operation := "serverside-applied"
	if f.apply.DryRun {
		operation += " (server dry run)"
	}
	var printing error
	f.apply.Applied = func(o *unstructured.Unstructured) {
		printing = errors.Join(printing, output.PrintDone(s.terminal.Out, o, operation))
	}
	if err := install.Apply(ctx, hub, objects, f.apply); err != nil {
		return hub.Explain(err)
	}
	if f.rehearsal {
		return printing
	}
	left, err := install.Leftovers(ctx, hub, objects)
	for _, warning := range left {
		s.terminal.Warn("%s", warning)
	}
	return errors.Join(printing, hub.Explain(err))
}

func (f *installFlags) await(ctx context.Context, s *session, hub *access.Cluster) error {
	s.terminal.Step("waiting until the hub's Pods are ready, for %s", f.timeout)
	begin := time.Now()
	ready, err := install.Rollout{
		Namespace: f.options.Namespace, Timeout: f.timeout, Progress: func(text string) { s.terminal.Step("%s", text) },
	}.Wait(ctx, hub)
	if errors.Is(err, install.ErrNotRunning) {
		return err
	}
	if err != nil {
		return hub.Explain(err)
	}
	s.terminal.Done("the hub runs in %d Pods after %s", ready, time.Since(begin).Round(100*time.Millisecond))
	s.terminal.Text("Next: %s check%s%s", s.program.name(), s.hub.Again(), f.namespaceFlag())
	return nil
}

// namespaceFlag is the flag with which other commands find this installation.
func (f *installFlags) namespaceFlag() string {
	if f.options.Namespace == hubv1.DefaultNamespace {
		return ""
	}
	return " --credentials-namespace " + f.options.Namespace
}

// warnLost names the arguments of the installed hub that this installation takes away.
func (f *installFlags) warnLost(s *session, lost []string) {
	if len(lost) == 0 {
		return
	}
	loses := "has these arguments, which this installation does not have"
	if f.apply.ForceConflicts {
		loses = "loses these arguments"
	}
	s.terminal.Warn("Deployment %s/%s %s: %s; to keep one, give install the flag of the same name, or put it as a flag into a file for --%s",
		f.options.Namespace, install.DeploymentName, loses, strings.Join(lost, " "), hubconfig.ConfigFlag)
}

// takeConfig checks the text of a configuration file and adds it to the options.
func (f *installFlags) takeConfig(p Program, path string, text []byte) error {
	modules, file, err := p.configured(path, text)
	if err != nil {
		return err
	}
	if !utf8.Valid(text) {
		return fmt.Errorf("%s: a ConfigMap holds text in UTF-8 only; save the file as such", path)
	}
	if len(text) > install.MaxConfigBytes {
		return fmt.Errorf("%s: it has %d bytes, and a ConfigMap holds %d; make it smaller", path, len(text), install.MaxConfigBytes)
	}
	f.options.Config, f.options.Rules = string(text), roles.OfHub(modules)
	return f.checkFits(p, file)
}

func installedFlags() []string {
	return append(replicaFlags(), "kubeconfig", "context", "credentials-namespace", "alone", "impersonate-apps", "apps-namespace",
		"metrics-bind-address", "health-probe-bind-address", "debug-bind-address", "crash-file")
}

// checkFits returns an error for each flag in the file that would contradict the manifests.
func (f *installFlags) checkFits(p Program, file *hubconfig.Flags) error {
	objects, err := install.Objects(f.options)
	if err != nil {
		return err
	}
	args, err := install.Arguments(objects)
	if err != nil {
		return err
	}
	// They are variables there, and the default of a Pod.
	args = append(slices.Clone(args), "--credentials-namespace="+f.options.Namespace, "--replica-name=hub", "--alone=false")
	installed, err := hubconfig.Parse(args, p.Modules)
	if err != nil {
		return fmt.Errorf("read the arguments of the hub: %w", err)
	}
	var problems []error
	for _, name := range installedFlags() {
		if want := installed.Value(name); file.InFile(name) && file.Value(name) != want {
			problems = append(problems, fmt.Errorf("%s: flags: %s: an installed hub has %q; remove it from the file, and see install --help "+
				"for the settings of an installation", file.File(), name, want))
		}
	}
	return errors.Join(problems...)
}

// checkImage returns an error if the stock hub is about to take the place of a hub of the user's own without being asked to.
func (f *installFlags) checkImage(p Program, installed install.Installed) error {
	if !p.Stock || f.named || installed.Image == "" || project.RepositoryOf(installed.Image) == project.StockImage {
		return nil
	}
	return fmt.Errorf("the installed hub runs another image than the stock one: Deployment %s/%s runs the image %s; run the command install of the program in that image, which has its modules "+
		"and their roles, or name an image with --image, such as --image=%s:latest, to replace that image",
		f.options.Namespace, install.DeploymentName, installed.Image, project.StockImage)
}
