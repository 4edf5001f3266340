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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/diagnose"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

const checkExample = `  # The hub's installation
  %s check

  # A registered remote, with the credentials that the hub has for it
  %s check edge-eu-1

  # A Secret, before it is registered
  %s check secret/edge-eu-1

  # A context of a kubeconfig, before its cluster is registered
  %s check --cluster-context edge-eu-1-admin`

type checkFlags struct {
	remote  access.RemoteFlags
	policy  kubeconfig.Policy
	config  string
	format  output.Format
	session *session
}

func newCheck(p Program) *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use:   "check [NAME | secret/NAME]",
		Short: "Find problems of a remote, a Secret, a context or the installation",
		Long: "Find problems and their remedies: of a registered remote, of a Secret in the credentials\n" +
			"namespace, of a context of a kubeconfig, or, without any of them, of the hub's installation. One line\n" +
			"for each check: address, TLS, credentials and their expiry, authentication, permissions, version, clock,\n" +
			"identity. Nothing is changed.\n\n" +
			"The checks use the network of this machine. The conditions of the Cluster show the results of the hub itself.\n\n" +
			connectionHelp + "\n\n" + exitCodesWaiting,
		Example: p.example(checkExample),
		Args:    output.OneAtMost("NAME or secret/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.completePolicy(cmd.Flags())
			return f.run(cmd.Context(), args)
		},
	}
	set := cmd.Flags()
	f.remote.Bind(set)
	set.Var((*hubconfig.CIDRs)(&f.policy.AllowCIDRs), "allow-cidr", "As the hub's flag of the same name. Repeatable (default none)")
	set.Var((*hubconfig.CIDRs)(&f.policy.DenyCIDRs), "deny-cidr", "As the hub's flag of the same name. Repeatable (default none)")
	set.BoolVar(&f.policy.AllowProxyURL, "allow-proxy-url", false, "As the hub's flag of the same name (default false)")
	set.BoolVar(&f.policy.AllowInsecureTLS, "insecure-kubeconfig-tls", false, "As the hub's flag of the same name (default false)")
	bindConfig(set, &f.config)
	f.format.Bind(set, "json or yaml. Default: a line for each question")
	f.session = (&session{program: p}).bind(cmd, true)
	cmd.ValidArgsFunction = f.session.completeClusters(false)
	return cmd
}

// completePolicy takes the policy of the hub's flags from the kubeconfig, unless the command line has one of them.
func (f *checkFlags) completePolicy(set *pflag.FlagSet) {
	if !slices.ContainsFunc([]string{"allow-cidr", "deny-cidr", "allow-proxy-url", "insecure-kubeconfig-tls"}, set.Changed) {
		f.policy = f.session.hub.Dev().Policy
	}
}

func (f *checkFlags) run(ctx context.Context, args []string) error {
	if len(args) > 0 && f.remote.Given() {
		return errors.New("one thing is checked at a time: NAME, secret/NAME, or --cluster-context")
	}
	report, err := f.report(ctx, args)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Canceled
	}
	if f.format.Tabular() {
		err = report.Print(f.session.terminal)
	} else {
		err = output.PrintData(f.session.terminal.Out, f.format, report)
	}
	if err != nil {
		return err
	}
	if report.Failed() {
		return process.ExitError(statusNotWell)
	}
	return nil
}

func (f *checkFlags) report(ctx context.Context, args []string) (diagnose.Report, error) {
	if f.remote.Given() {
		return f.context(ctx)
	}
	name, isSecret := strings.CutPrefix(strings.Join(args, ""), "secret/")
	hub, err := f.session.hub.Hub()
	if err != nil {
		return nil, err
	}
	if name == "" {
		return diagnose.Installation{Hub: hub, Namespace: f.session.hub.Namespace}.Check(ctx), nil
	}
	var list hubv1.ClusterList
	if err := hub.List(ctx, &list); err != nil {
		return nil, hub.Explain(err)
	}
	i := slices.IndexFunc(list.Items, func(c hubv1.Cluster) bool {
		return !isSecret && c.Name == name || isSecret && c.Spec.KubeconfigSecretRef.Name == name
	})
	switch {
	case i >= 0:
		return f.secret(ctx, hub, list.Items[i].Spec.KubeconfigSecretRef.Name, &list.Items[i])
	case isSecret:
		return f.secret(ctx, hub, name, nil)
	}
	return nil, hub.Explain(apierrors.NewNotFound(hubv1.GroupVersion.WithResource("clusters").GroupResource(), name))
}

// context checks a context of a kubeconfig, as an administrator who is about to register its cluster.
func (f *checkFlags) context(ctx context.Context) (diagnose.Report, error) {
	remote, err := f.remote.Remote()
	if err != nil {
		return nil, err
	}
	entry, _, err := f.remote.Raw()
	if err != nil {
		return nil, err
	}
	needs, err := f.needs(ctx, nil)
	if err != nil {
		return nil, err
	}
	t := diagnose.Target{
		Cluster: remote, Policy: f.policy, Kind: "The credentials of the context",
		Renewal: "log in again, or use a context with other credentials",
		Endpoint: kubeconfig.Endpoint{
			Server: entry.Server, TLSServerName: entry.TLSServerName, ProxyURL: entry.ProxyURL, Insecure: entry.InsecureSkipTLSVerify,
		},
		Rights: append(needs, diagnose.Needs{By: "register", Rules: enroll.Rules()}),
	}
	config := rest.CopyConfig(remote.Config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("read the files that the kubeconfig names: %w", err)
	}
	t.Endpoint.CAData = config.CAData
	if hub, err := f.session.hub.Hub(); err == nil { // that there is no hub yet is no problem
		_, _ = t.Know(ctx, hub, "")
	}
	return diagnose.Remote(ctx, t), nil
}

// secret checks a Secret, with the settings of the Cluster that names it, if there is one.
func (f *checkFlags) secret(ctx context.Context, hub *access.Cluster, name string, of *hubv1.Cluster) (diagnose.Report, error) {
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: f.session.hub.Namespace, Name: name}
	err := hub.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		return diagnose.NoSecret(key), nil
	}
	if err != nil {
		return nil, hub.Explain(err)
	}
	needs, err := f.needs(ctx, of)
	if err != nil {
		return nil, err
	}
	t := diagnose.Target{Policy: f.policy, Rights: needs, Renewal: "put new ones into Secret " + key.String()}
	options, own := kubeconfig.Options{}, ""
	if of != nil {
		options = cluster.OptionsOf(of)
		own, t.Known = of.Name, of.Annotations[hubv1.AnnotationID]
	}
	hubID, err := t.Know(ctx, hub, own)
	if err != nil {
		return nil, err
	}
	if own != "" && enroll.MadeByRegister(&secret, hubID, own) {
		t.Renewal = fmt.Sprintf("renew them with %s rotate %s --cluster-context CONTEXT, or %s", f.session.program.name(), own, t.Renewal)
	}
	connection, err := kubeconfig.Parse(secret.Data, options, f.policy)
	if err != nil {
		return t.Refused(err, func(p kubeconfig.Policy) error {
			_, err := kubeconfig.Parse(secret.Data, options, p)
			return err
		}), nil
	}
	t.Endpoint, t.Kind, t.Expires = connection.Endpoint, string(connection.Credential.Type()), connection.Credential.Expires()
	if connection.Endpoint.Tunnel != "" {
		return t.BehindTunnel(&of.Status), nil
	}
	transport, err := kubeconfig.NewTransport(connection, f.policy)
	if err != nil {
		return t.Refused(err, nil), nil
	}
	defer transport.Close()
	config := kubeconfig.RESTConfig(connection.Endpoint, transport)
	config.UserAgent = access.UserAgent()
	if t.Cluster, err = access.NewRemote("the remote", config, connection.Credential); err != nil {
		return nil, err
	}
	return diagnose.Remote(ctx, t), nil
}

// needs returns the permissions that the hub and its modules need in a remote; of the modules that a Cluster selects, if there
// is one.
func (f *checkFlags) needs(ctx context.Context, cluster *hubv1.Cluster) ([]diagnose.Needs, error) {
	selected := func(modules []registry.Module) []registry.Module {
		if cluster == nil {
			return modules
		}
		return registry.SelectModules(modules, cluster.Labels, cluster.Spec.Modules)
	}
	modules, err := f.session.modules(ctx, f.config, selected(f.session.program.Modules))
	switch {
	case err == nil:
	case cluster != nil || f.config != "":
		return nil, err
	default: // that there is no hub yet is no problem
		modules = f.session.program.Modules
	}
	return diagnose.NeedsOf(selected(modules)), nil
}
