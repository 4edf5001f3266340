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
		return fmt.Errorf("build the hub: %w", dig.RootCause(err))
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
		fx.Supply(o, o.Log, o.Registry),
		fx.Supply(cluster.Settings{
			Namespace: o.CredentialsNamespace, Concurrency: o.Concurrency,
			Policy: o.Registry.Policy, HubID: o.Registry.HubID,
		}),
		fx.Provide(
			func() (ctrl.Manager, error) { return newManager(o, scheme) },
			newHubValues,
		),
		registry.FX,
		cluster.Module,
	}
	for _, m := range o.Modules {
		all = append(all, m.Option())
	}
	return fx.Options(all...)
}

// live starts the App, waits for a reason to end, and stops it.
func live(ctx context.Context, app *fx.App, end *ending) error {
	starting, cancel := context.WithTimeout(ctx, app.StartTimeout())
	defer cancel()
	if err := app.Start(starting); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("start the hub: %w", err)
	}
	var reason error
	select {
	case <-ctx.Done():
	case <-end.asked:
		reason = end.reason(app)
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), app.StopTimeout())
	defer cancel()
	return errors.Join(reason, app.Stop(stopping))
}
