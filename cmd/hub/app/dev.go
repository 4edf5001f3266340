// SPDX-License-Identifier: Apache-2.0

//go:build !nodev

package app

import (
	"context"
	"errors"
	"io"
	"net/netip"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/dev"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
)

// newDev returns the command dev, which runs this hub among clusters of its own. A program that is built
// with the tag nodev, as images are, has neither the command nor what it needs: the fleet, and kind.
func newDev(p program) []*cobra.Command {
	return []*cobra.Command{dev.Command(dev.Program{
		Name: p.name(), Hub: p.prepareDev, Modules: p.modules, Grant: p.grantDev, Stdout: p.stdout, Stderr: p.stderr,
	})}
}

// devHasSaid reports whether the command dev has ended with an error that it has printed.
func devHasSaid(err error) bool { return errors.Is(err, dev.ErrFailed) }

// grantDev gives an account the permissions of the hub that prepareDev prepares.
func (p program) grantDev(ctx context.Context, admin client.Client, account rbacv1.Subject) error {
	return GrantHub(ctx, admin, Options{Modules: p.modules}, account)
}

// prepareDev prepares a hub for remotes on this machine. It serves nothing, so that it never lacks a
// port.
func (p program) prepareDev(w io.Writer) (dev.RunHub, error) {
	log, err := logging.New(w, logging.Options{})
	if err != nil {
		return nil, err
	}
	logging.Route(log)
	o := Options{Modules: p.modules, Log: log}
	o.Registry.Metrics = ctrlmetrics.Registry
	o.Registry.Replica = "dev"
	o.Registry.Policy.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	return func(ctx context.Context, config *rest.Config) error {
		o.Config = config
		return Run(ctx, o)
	}, nil
}
