// SPDX-License-Identifier: Apache-2.0

//go:build !nodev

package command

import (
	"context"
	"fmt"
	"io"
	"net/netip"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/dev"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
)

// newDev returns the command dev, which runs this hub among clusters of its own. A program that is built
// with the tag nodev, as images are, has neither the command nor its dependencies: the fleet, and kind.
func newDev(p Program) []*cobra.Command {
	return []*cobra.Command{dev.Command(dev.Program{
		Name: p.name(), Hub: p.prepareDev, Stdout: p.Stdout, Stderr: p.Stderr,
	})}
}

// prepareDev prepares a hub for remotes on this machine, with a configuration file if there is one. It serves nothing, so
// that it never lacks a port.
func (p Program) prepareDev(w io.Writer, file string) (dev.Hub, error) {
	f, err := hubconfig.Parse(devArgs(dev.Replica{Name: "dev", Metrics: serving.Nowhere}, file), p.Modules)
	if err == nil {
		err = f.Read()
	}
	if err != nil {
		return dev.Hub{}, err
	}
	log := logging.New(w, logging.Options{Level: f.LogLevel()})
	logging.Route(log)
	o := f.Options
	o.Log, o.Alone = log, true
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	o.Registry.Policy.AllowCIDRs = append(o.Registry.Policy.AllowCIDRs, loopback)
	for _, denied := range o.Registry.Policy.DenyCIDRs {
		if denied.Overlaps(loopback) {
			return dev.Hub{}, f.Report(fmt.Errorf("--deny-cidr=%s denies addresses of this machine, where all remotes of dev are: "+
				"leave it out of the file for dev", denied))
		}
	}
	modules, err := registry.ConfigureModules(p.Modules, o.Registry.ModuleConfigs)
	if err != nil {
		return dev.Hub{}, err
	}
	grant := func(ctx context.Context, admin client.Client, account rbacv1.Subject) error {
		hub := roles.Hub{Namespace: hubv1.DefaultNamespace}
		return hub.Grant(ctx, admin, modules, account)
	}
	args := func(r dev.Replica) []string {
		all := devArgs(r, file)
		for _, prefix := range o.Registry.Policy.AllowCIDRs {
			all = append(all, "--allow-cidr="+prefix.String())
		}
		return append([]string{"run"}, all...)
	}
	return dev.Hub{Policy: o.Registry.Policy, Unused: f.Overridden(), Modules: modules, Grant: grant, Args: args, Run: func(ctx context.Context, config *rest.Config, at dev.Addresses) error {
		o.Config, o.TunnelAddress = config, at.Tunnel
		if at.NATS != "" {
			o.NATS = natshub.Options{URL: at.NATS, CreateBuckets: true}
		}
		return process.Run(ctx, o)
	}}, nil
}

// devArgs returns the flags that dev sets by itself, because the file may have others: the connection, the addresses and the identity of
// the hub.
func devArgs(r dev.Replica, file string) []string {
	return []string{
		"--config=" + file, "--kubeconfig=" + r.Kubeconfig, "--context=", "--replica-name=" + r.Name,
		"--alone=false", "--active-replicas=0", "--credentials-namespace=" + hubv1.DefaultNamespace,
		"--impersonate-apps=false", "--apps-namespace=", "--metrics-bind-address=" + r.Metrics,
		"--health-probe-bind-address=" + serving.Nowhere, "--debug-bind-address=" + serving.Nowhere, "--tunnel-bind-address=" + serving.Nowhere, "--crash-file=", "--log-format=auto",
	}
}
