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

	"github.com/clusterfx/clusterfx/cmd/hub/internal/lease"
	"github.com/clusterfx/clusterfx/reconcilers/registration"
	"github.com/clusterfx/clusterfx/registry"
)

// registration registers Clusters, with a leader in the replica that leads.
func (o Options) registration() fx.Option {
	settings := registration.Settings{Namespace: o.CredentialsNamespace, Concurrency: o.Concurrency}
	if o.leader == nil {
		return fx.Options(fx.Supply(settings), registration.Module)
	}
	return fx.Invoke(func(hub ctrl.Manager, r *registry.Registry) error {
		return hub.Add(&onLeader{options: o, hub: hub, setUp: func(mgr ctrl.Manager) error {
			return registration.Setup(registration.Params{Manager: mgr, Registry: r, Monitor: o.Registry.Monitor, Settings: settings})
		}})
	})
}

// onLeader has a manager for each leadership: it cannot be started again, and its caches end with it.
type onLeader struct {
	options Options
	hub     ctrl.Manager
	setUp   func(ctrl.Manager) error
	retry   time.Duration // retry is how long after its end another manager is built within a leadership. Default: managerRetry.
}

const managerRetry = 5 * time.Second

func (c *onLeader) Start(ctx context.Context) error {
	for {
		leads, ended, err := c.options.leader.Await(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx has ended, which is no failure.
		}
		c.lead(ctx, leads)
		ended()
	}
}

func (c *onLeader) lead(ctx, leads context.Context) {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(leads, cancel)()
	for work.Err() == nil {
		err := c.run(work, leads)
		if err != nil && work.Err() != nil {
			c.options.Log.Error(err, "The manager of the controllers of the leader did not end in good order")
		}
		if work.Err() == nil {
			c.options.Log.Error(err, "The manager of the controllers of the leader ended and will be started again")
			pause(work, cmp.Or(c.retry, managerRetry))
		}
	}
}

func (c *onLeader) run(work, leads context.Context) error {
	mgr, err := c.newManager(work, leads)
	if err != nil {
		return fmt.Errorf("build the manager: %w", err)
	}
	if err := c.setUp(mgr); err != nil {
		return err
	}
	return mgr.Start(work)
}

// newManager's clients write no longer than a leadership. It has no servers.
func (c *onLeader) newManager(work, leads context.Context) (ctrl.Manager, error) {
	term := &term{options: c.options, scheme: c.hub.GetScheme(), work: &runner{life: work}}
	options := term.managerOptions()
	options.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &watchRetry{next: next, log: c.options.Log}
	})
	options.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return lease.Guard(func() error { return checkWhile(leads, c.options.leader) }, next)
	})
	options.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return c.hub.GetRESTMapper(), nil }
	return ctrl.NewManager(options.config, options.Options)
}

// checkWhile: a leadership lasts, and the replica leads now.
func checkWhile(leads context.Context, leader registry.Turn) error {
	err := leader.Check() // In this order, it is about that leadership.
	if leads.Err() != nil {
		return registry.ErrStandby
	}
	return err
}
