// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/fx"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// How long the end of a hub may take beyond its apps' 20 s (the default): less than Kubernetes gives a Pod of the manifests.
const (
	// managerReserve is for the other runnables of the manager.
	managerReserve = 2 * time.Second
	hooksReserve   = 3 * time.Second
)

// stopTimeout: the registry takes up to twice its StopTimeout.
func (o Options) stopTimeout() time.Duration {
	return 2*o.Registry.Limits.StopTimeout + managerReserve
}

// EndsWithin is how long a hub with default Options takes to hand over its Clusters and to end at most.
func EndsWithin() time.Duration {
	var o Options
	o.Registry.Limits.StopTimeout = defaultStopTimeout
	return replica.DefaultLeaveTimeout + o.stopTimeout() + hooksReserve
}

// hub is a running hub, from its start to its end.
type hub struct {
	options hubOptions
	scheme  *runtime.Scheme
	site    *site
	share   *share
	work    *runner
	end     *shutdown
	app     *fx.App
	remotes *registry.Registry
}

// runHub returns when ctx has ended the hub, or with the error that has.
func runHub(ctx context.Context, o hubOptions, scheme *runtime.Scheme, site *site) error {
	monitor := liveness.New(liveness.Options{After: o.StuckAfter, Log: o.Log.WithName("liveness")})
	tunnels, err := newTunnels(ctx, o.Options)
	if err != nil {
		return err
	}
	share, err := newShare(ctx, o.Options, tunnels, monitor.Err)
	if err != nil {
		tunnels.close()
		return err
	}
	metrics := newHubMetrics(o.Registry.Metrics)
	defer metrics.end()
	o.Registry.Monitor, o.Registry.Metrics, o.Registry.Root = monitor, metrics, ctx
	share.adopt(&o)
	if tunnels != nil {
		o.Registry.Policy.Tunnel = tunnels.hub.Dial
		defer background(ctx, tunnels.run)() // It ends after the apps.
	}
	h := &hub{options: o, scheme: scheme, site: site, share: share, work: newRunner(ctx), end: newShutdown()}
	defer background(ctx, monitor.Run)()
	err = h.build(
		parts(o, h.newManager),
		share.option(),
		tunnels.option(),
		fx.Invoke(func(mgr ctrl.Manager, remotes *registry.Registry) error {
			h.site.NoteReadyz(func() []string { return notRunning(remotes.HubParts()) })
			if o.Starting != nil {
				if err := mgr.Add(&starting{remotes: remotes, tell: o.Starting}); err != nil {
					return err
				}
			}
			return mgr.Add(&partreport.Writer{
				Client: mgr.GetClient(), Namespace: o.CredentialsNamespace, Replica: o.Registry.Replica,
				Parts: remotes.HubParts, Log: o.Log.WithName("modules"), Leaving: share.leaving, Check: share.check,
			})
		}),
	)
	if err != nil {
		return err
	}
	return h.run(ctx, h.wait)
}

// build has the manager start after everything else, and stop before that.
func (h *hub) build(options ...fx.Option) error {
	h.app = fx.New(fx.Options(options...), h.end.option(), fx.Invoke(func(l fx.Lifecycle, mgr ctrl.Manager, remotes *registry.Registry) {
		h.remotes = remotes
		l.Append(fx.StopHook(func(ctx context.Context) { _ = remotes.Shutdown(ctx) })) // The manager may not have started it.
		h.work.attach(l, mgr)
	}))
	if err := h.app.Err(); err != nil {
		return fmt.Errorf("build the hub: %w", cause(err))
	}
	return nil
}

// background runs f, also when ctx has ended, until its result is called.
func background(ctx context.Context, f func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// run does work between a start and a stop that outlast ctx: fx runs no stop hooks after a start whose context ended (uber-go/fx#1035).
func (h *hub) run(ctx context.Context, work func(context.Context) error) error {
	life := context.WithoutCancel(ctx)
	starting, cancel := context.WithTimeout(life, h.app.StartTimeout())
	defer cancel()
	reason := h.app.Start(starting)
	if reason != nil {
		reason = fmt.Errorf("start the hub: %w", reason)
	} else {
		h.share.start(life)
		reason = errors.Join(work(ctx), h.share.finish())
	}
	failed := h.work.failure() // by itself, before it was stopped
	hooks, left := h.stop(life)
	if failed != nil {
		return failed
	}
	return errors.Join(reason, left, hooks)
}

// wait: a manager or a fleet that ended says why itself.
func (h *hub) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-h.work.ended:
		return nil
	case <-h.share.ended:
		return nil
	case <-h.end.requested:
		return h.end.code(h.app)
	}
}

// stop returns errors of hooks, and an error if something still runs that should have ended.
func (h *hub) stop(life context.Context) (hooks, left error) {
	stopping, cancel := context.WithTimeoutCause(life, h.app.StopTimeout(),
		fmt.Errorf("not everything has ended within %s", h.app.StopTimeout()))
	defer cancel()
	hooks = h.app.Stop(stopping)
	// fx does not stop the components of a start that timed out.
	if left = h.work.stop(stopping); left != nil {
		return nil, left
	}
	if stopping.Err() != nil {
		return nil, fmt.Errorf("%w: %w", context.Cause(stopping), hooks)
	}
	return hooks, h.work.failure()
}
