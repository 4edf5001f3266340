// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/fx"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/internal/writegate"
	"github.com/clusterfx/clusterfx/reconcilers/registration"
	"github.com/clusterfx/clusterfx/registry"
)

// registration registers Clusters. Of several replicas, the one with the turn does.
func (o hubOptions) registration() fx.Option {
	settings := registration.Settings{Namespace: o.CredentialsNamespace, Concurrency: o.Concurrency}
	if o.once == nil {
		return fx.Options(fx.Supply(settings), registration.Module)
	}
	return fx.Invoke(func(hub ctrl.Manager, r *registry.Registry) error {
		return hub.Add(&runsOnce{options: o, hub: hub, setUp: func(mgr ctrl.Manager) error {
			return registration.Setup(registration.Params{Manager: mgr, Registry: r, Monitor: o.Registry.Monitor, Settings: settings})
		}})
	})
}

// runsOnce has a manager for each turn: it cannot be started again, and its caches end with it.
type runsOnce struct {
	options hubOptions
	hub     ctrl.Manager
	setUp   func(ctrl.Manager) error
	retry   time.Duration // retry is how long after its end another manager is built within a turn. Default: managerRetry.
}

const managerRetry = 5 * time.Second

func (c *runsOnce) Start(ctx context.Context) error {
	for {
		lasts, ended, err := c.options.once.Await(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx has ended, which is no failure.
		}
		c.takeTurn(ctx, lasts)
		ended()
	}
}

func (c *runsOnce) takeTurn(ctx, lasts context.Context) {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(lasts, cancel)()
	for work.Err() == nil {
		err := c.run(work, lasts)
		if err != nil && work.Err() != nil {
			c.options.Log.Error(err, "The manager of what runs once did not end in good order")
		}
		if work.Err() == nil {
			c.options.Log.Error(err, "The manager of what runs once ended and will be started again")
			replica.Pause(work, cmp.Or(c.retry, managerRetry))
		}
	}
}

func (c *runsOnce) run(work, lasts context.Context) error {
	mgr, err := c.newManager(work, lasts)
	if err != nil {
		return fmt.Errorf("build the manager: %w", err)
	}
	if err := c.setUp(mgr); err != nil {
		return err
	}
	return mgr.Start(work)
}

// newManager's clients write no longer than a turn. It has no servers.
func (c *runsOnce) newManager(work, lasts context.Context) (ctrl.Manager, error) {
	h := &hub{options: c.options, scheme: c.hub.GetScheme(), work: &runner{life: work}}
	options := h.managerOptions()
	options.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &writegate.Gate{Next: next, Check: func() error { return checkWhile(lasts, c.options.once) }, Count: c.options.once.Count}
	})
	options.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return c.hub.GetRESTMapper(), nil }
	return ctrl.NewManager(options.config, options.Options)
}

// checkWhile: a turn lasts, and its gate is open.
func checkWhile(lasts context.Context, once registry.Turn) error {
	err := once.Check() // In this order, it is about that turn.
	if lasts.Err() != nil {
		return registry.ErrStandby
	}
	return err
}
