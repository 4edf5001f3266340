// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"

	"go.uber.org/fx"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Rehearsal is what a hub that changes nothing does while it runs.
type Rehearsal struct {
	Registry   *registry.Rehearsal
	Middleware registry.Middleware
	// Run ends the hub when it returns. Its context ends with the hub.
	Run func(ctx context.Context, remotes *registry.Registry) error
}

// errRehearsal is the answer to writes that are no requests to an API server.
var errRehearsal = fmt.Errorf("%w: %w", registry.ErrStandby, registry.ErrDryOnly)

// Rehearse runs the modules of a hub, and nothing else of it: no Cluster is registered, none has a status, and there is no journal,
// share, renewal, report or port. It sends no write to the hub but dry runs.
func Rehearse(ctx context.Context, o Options, r Rehearsal) error {
	o.Alone = true
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	scheme, err := newScheme()
	if err != nil {
		return fmt.Errorf("build the scheme: %w", err)
	}
	o.Config.Wrap(registry.DryOnly)
	if o.Registry.HubID, err = preflight(ctx, o.Config, scheme); err != nil {
		return err
	}
	o.Registry.Rehearsal, o.Registry.Impersonate, o.Registry.Holds = r.Registry, false, client.ObjectKey{}
	o.Registry.Gate = func(registry.ClusterName) (int64, error) { return 0, errRehearsal }
	o.Registry.Root, o.Registry.Monitor = ctx, liveness.New(liveness.Options{Log: o.Log.WithName("liveness")})
	metrics := newHubMetrics(o.Registry.Metrics)
	defer metrics.end()
	o.Registry.Metrics = metrics
	o.Registry.HubParts = hubOptions{Options: o}.hubParts(o.settings())
	defer background(ctx, o.Registry.Monitor.Run)()
	h := &hub{options: hubOptions{Options: o}, scheme: scheme, site: newSite(), share: &share{}, work: newRunner(ctx), end: newShutdown()}
	if err := h.build(o.base(), fx.Provide(h.newManager), registry.WithMiddleware(r.Middleware)); err != nil {
		return err
	}
	return h.run(ctx, func(ctx context.Context) error {
		ctx, end := context.WithCancel(ctx)
		defer end()
		go func() {
			defer end()
			_ = h.wait(ctx) // The hub has ended by itself, and says why.
		}()
		return r.Run(ctx, h.remotes)
	})
}
