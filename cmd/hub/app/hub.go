// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/dig"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
)

// Run runs a hub until ctx ends, which is a success, or until the hub cannot go on, which is an
// error: its manager failed, its lease is lost, or a module asked for the end with fx.Shutdowner.
// It returns when everything that the hub started has ended, or has had its time to.
func Run(ctx context.Context, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	scheme, err := newScheme()
	if err != nil {
		return fmt.Errorf("build the scheme: %w", err)
	}
	if o.Registry.HubID, err = preflight(ctx, o.Config, scheme); err != nil {
		return err
	}
	work, end := newRunner(ctx), newEnding()
	defer work.finish()
	app := fx.New(parts(o, scheme), end.option(), fx.Invoke(work.attach))
	if err := app.Err(); err != nil {
		return fmt.Errorf("build the hub: %w", cause(err))
	}
	err = live(ctx, app, end)
	if failed := work.failure(); failed != nil {
		return failed
	}
	return err
}

// parts are what the hub's App consists of. Its manager is started by whoever runs it.
func parts(o Options, scheme *runtime.Scheme) fx.Option {
	all := []fx.Option{
		fx.RecoverFromPanics(),
		fx.StopTimeout(stopTimeout + stopReserve),
		fx.WithLogger(func() fxevent.Logger { return logging.FX(o.Log) }),
		fx.Supply(o.Log, o.Registry),
		fx.Supply(cluster.Settings{
			Namespace: o.CredentialsNamespace, Concurrency: o.Concurrency,
			Policy: o.Registry.Policy, HubID: o.Registry.HubID,
		}),
		fx.Provide(
			func() (ctrl.Manager, error) { return newManager(o, scheme) },
			func(mgr ctrl.Manager) hubValues { return newHubValues(mgr, o.Registry.Metrics) },
		),
		registry.FX,
		cluster.Module,
	}
	for _, m := range o.Modules {
		all = append(all, m.Option())
	}
	return fx.Options(all...)
}

// live starts the App, waits for a reason to end, and stops it. The start does not end with ctx: fx
// runs no stop hooks after a start whose context ended, not even those of what had started
// (uber-go/fx#1035).
func live(ctx context.Context, app *fx.App, end *ending) error {
	life := context.WithoutCancel(ctx)
	starting, cancel := context.WithTimeout(life, app.StartTimeout())
	defer cancel()
	reason := app.Start(starting)
	if reason != nil {
		reason = fmt.Errorf("start the hub: %w", reason)
	} else {
		reason = end.wait(ctx, app)
	}
	stopping, cancel := context.WithTimeout(life, app.StopTimeout())
	defer cancel()
	return errors.Join(reason, app.Stop(stopping))
}

// cause returns what a constructor or an invoke has failed with, without the way there through the
// graph. Where the graph itself is wrong, the way there says where.
func cause(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if _, ofGraph := inner.(dig.Error); !ofGraph { //nolint:errorlint // one link of the chain at a time
			return inner
		}
	}
	return err
}
