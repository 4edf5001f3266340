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
	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// How long a term may take beyond its apps' 20 s (the default): less than Kubernetes gives a Pod of the manifests.
const (
	// managerReserve is for the other runnables of the manager.
	managerReserve = 2 * time.Second
	hooksReserve   = 3 * time.Second
	leaseReserve   = 3 * time.Second
)

// stopTimeout: the registry takes up to twice its StopTimeout.
func (o Options) stopTimeout() time.Duration {
	return 2*o.Registry.Limits.StopTimeout + managerReserve
}

// EndsWithin is how long a hub with default Options takes to end at most; Sharded, it hands over its Clusters first.
func EndsWithin(sharded bool) time.Duration {
	var o Options
	o.Registry.Limits.StopTimeout = defaultStopTimeout
	within := o.stopTimeout() + hooksReserve + leaseReserve
	if sharded { // What runs once ends first.
		within += o.Registry.Limits.StopTimeout + replica.DefaultLeaveTimeout
	}
	return within
}

var errDeposed = errors.New("the lease is lost") // errDeposed: the lease was lost, and nothing of the term is left.

// term is one life of the hub: it stands by, works, and ends with a stop or the lease. All that can act is built for it.
type term struct {
	options  Options
	scheme   *runtime.Scheme
	site     *serving.Checks // the checks and handlers of this term
	election *election
	share    *share
	work     *runner
	end      *shutdown
	app      *fx.App
}

// runTerm returns nil if ctx ended the term, errDeposed if another may begin, else the error that ends the hub.
func runTerm(ctx context.Context, o Options, scheme *runtime.Scheme, ports *serving.Ports) error {
	monitor := liveness.New(liveness.Options{After: o.StuckAfter, Log: o.Log.WithName("liveness")})
	election, err := newElection(o, monitor.Err)
	if err != nil {
		return err
	}
	share, err := newShare(o, monitor.Err)
	if err != nil {
		return err
	}
	metrics := newTermMetrics(o.Registry.Metrics)
	defer metrics.end()
	o.Registry.Monitor = monitor
	o.Registry.Metrics, o.Registry.Gate, o.Registry.Root = metrics, election.gate(), ctx
	o.Registry.Overloaded = election.isLate
	share.adopt(&o)
	t := &term{
		options: o, scheme: scheme, site: serving.NewChecks(), election: election, share: share,
		work: newRunner(ctx), end: newShutdown(),
	}
	defer ports.Show(nil)
	defer background(ctx, monitor.Run)()
	t.app = fx.New(
		parts(o, t.newManager),
		t.end.option(),
		share.option(),
		fx.Invoke(func(l fx.Lifecycle, mgr ctrl.Manager, remotes *registry.Registry) error {
			// A manager shuts the registry down only if it had its turn; elsewhere, this takes no time.
			l.Append(fx.StopHook(func(ctx context.Context) { _ = remotes.Shutdown(ctx) }))
			t.site.NoteReadyz(func() []string { return append(t.waiting(), notRunning(remotes.HubParts())...) })
			t.work.attach(l, mgr, func() { ports.Show(t.site) })
			if o.Starting != nil {
				if err := mgr.Add(&starting{remotes: remotes, tell: o.Starting}); err != nil {
					return err
				}
			}
			return mgr.Add(&partreport.Writer{
				Client: mgr.GetClient(), Namespace: o.CredentialsNamespace, Replica: o.Registry.Replica,
				Parts: remotes.HubParts, Log: o.Log.WithName("modules"), Leaving: share.leaving, Check: share.check(),
			})
		}),
	)
	if err := t.app.Err(); err != nil {
		return fmt.Errorf("build the hub: %w", cause(err))
	}
	return t.run(ctx)
}

func (t *term) waiting() []string {
	for _, what := range []string{t.election.waiting(), t.share.waiting()} {
		if what != "" {
			return []string{"this hub " + what}
		}
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

// run's start and stop outlast ctx: fx runs no stop hooks after a start whose context ended (uber-go/fx#1035).
func (t *term) run(ctx context.Context) error {
	life := context.WithoutCancel(ctx)
	t.election.start(life)
	starting, cancel := context.WithTimeout(life, t.app.StartTimeout())
	defer cancel()
	reason := t.app.Start(starting)
	if reason != nil {
		reason = fmt.Errorf("start the hub: %w", reason)
	} else {
		t.share.start(life)
		reason = errors.Join(t.wait(ctx), t.share.finish(life))
	}
	failed := t.work.failure() // by itself, before it was stopped
	hooks, left := t.stop(life)
	t.election.finish(life, left == nil)
	switch {
	case failed != nil:
		return failed
	case !errors.Is(reason, errDeposed):
		return errors.Join(reason, left, hooks)
	case left != nil:
		return fmt.Errorf("the hub lost its lease, and cannot start over in this process: %w", left)
	case hooks != nil:
		t.options.Log.Error(hooks, "A hook failed to stop its part of the hub's App")
	}
	return errDeposed
}

// wait: a manager that ended says why itself.
func (t *term) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-t.work.ended:
		return nil
	case <-t.share.over():
		return nil // It says why itself.
	case <-t.election.lost():
		return errDeposed
	case <-t.end.requested:
		return t.end.code(t.app)
	}
}

// stop returns errors of hooks, and an error if something still runs that should have ended.
func (t *term) stop(life context.Context) (hooks, left error) {
	stopping, cancel := context.WithTimeoutCause(life, t.app.StopTimeout(),
		fmt.Errorf("not everything has ended within %s", t.app.StopTimeout()))
	defer cancel()
	hooks = t.app.Stop(stopping)
	// fx does not stop the components of a start that timed out.
	if left = t.work.stop(stopping); left != nil {
		return nil, left
	}
	if stopping.Err() != nil {
		return nil, fmt.Errorf("%w: %w", context.Cause(stopping), hooks)
	}
	return hooks, t.work.failure()
}
