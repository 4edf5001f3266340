// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// errManagerEnded says that a manager returned though nobody had stopped it.
var errManagerEnded = errors.New("the manager ended")

// epoch is one life of one remote's app, and the owner of everything that can act in it: its
// context, its transports, its fx App, its manager, its rate limits. It is run once and thrown
// away.
//
// Its context is also its fence: every request of every client that the app was given looks at it
// right before it is sent. Once it has ended nothing leaves the hub any more, though goroutines of
// the app may still run.
type epoch struct {
	*environment
	name    ClusterName
	number  int64
	config  Config
	base    http.RoundTripper // the connection to the remote
	info    Info
	modules []Module
	log     logr.Logger

	ctx    context.Context //nolint:containedctx // See above: an epoch is a lifetime.
	cancel context.CancelCauseFunc

	graph   graphLog
	tracker *tracker
	hooks   hooks
	metrics *appMetrics
	mapper  *liveMapper
	values  values // what the fx App provides

	events   lateRecorder
	building *running      // the graph; nil until it was begun
	manager  *running      // nil until it was started
	done     chan struct{} // closed when nothing of the epoch runs any more
}

// running is a goroutine that was started and will end.
type running struct {
	done chan struct{}
	err  error // read it only after done
}

// wait returns when the goroutine has ended, or after a time. It returns at once if none was started.
func (r *running) wait(atMost time.Duration) {
	if r == nil {
		return
	}
	patience := time.NewTimer(atMost)
	defer patience.Stop()
	select {
	case <-r.done:
	case <-patience.C:
	}
}

func start(f func() error) *running {
	r := &running{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = safely(f)
	}()
	return r
}

// newEpoch completes an epoch of which name, number, config, base, info and log are set. changed
// is called when the app has come further or a module has failed.
func newEpoch(env *environment, e *epoch, changed func()) *epoch {
	e.environment = env
	e.config = e.config.withDefaults()
	e.ctx, e.cancel = context.WithCancelCause(env.root)
	e.modules = selectModules(env.modules, e.config.Modules)
	e.graph.log = e.log.WithName("fx")
	e.hooks.log, e.hooks.timeout = e.log, env.limits.StopTimeout
	e.done = make(chan struct{})
	e.tracker = newTracker(e.modules, changed)
	e.metrics = newAppMetrics(env.metrics, e.name)
	// Not when the app has ended: the next one may start before that, and registers the same.
	context.AfterFunc(e.ctx, e.metrics.end)
	return e
}

// stop fences the epoch: from now on no request leaves it, its contexts have ended, and run
// cleans up. It returns at once and may be called any number of times.
func (e *epoch) stop() { e.cancel(ErrStopped) }

// run builds and runs the app until it fails or is stopped, cleans up and returns. ready is
// called when the app is ready, ended if it ends by itself.
func (e *epoch) run(ready func(), ended func(error)) {
	defer close(e.done)
	defer e.cleanUp()
	err := safely(e.start)
	if err == nil {
		ready()
		select {
		case <-e.manager.done:
			err = managerError(e.manager.err)
		case <-e.ctx.Done():
			return
		}
	}
	if e.ctx.Err() == nil {
		ended(err)
	}
}

func managerError(err error) error {
	if err == nil {
		return errManagerEnded
	}
	return fmt.Errorf("%w: %w", errManagerEnded, err)
}

// start returns when the app is ready: every hook has run, and every controller has seen its
// initial objects.
func (e *epoch) start() error {
	release, err := e.takeTurn(e.ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := e.build(); err != nil {
		return err
	}
	if err := e.waitForGraph(); err != nil {
		return err
	}
	if err := e.startHooks(); err != nil {
		return err
	}
	mgr := e.values.Manager
	e.events.open()
	e.manager = start(func() error { return mgr.Start(e.ctx) })
	return e.waitUntilSynced(mgr)
}

// waitForGraph builds the graph, and gives up waiting for it when a constructor does not return in
// time.
func (e *epoch) waitForGraph() error {
	e.building = start(e.buildGraph)
	patience := time.NewTimer(e.limits.StartTimeout)
	defer patience.Stop()
	select {
	case <-e.building.done:
		return e.building.err
	case <-patience.C:
		return &moduleError{
			module: e.graph.current(), reason: ReasonBuildFailed,
			err: fmt.Errorf("a constructor or invoke did not return within %s", e.limits.StartTimeout),
		}
	case <-e.ctx.Done():
		return context.Cause(e.ctx)
	}
}

func (e *epoch) waitUntilSynced(mgr ctrl.Manager) error {
	elected := mgr.Elected()
	patience := time.NewTicker(e.limits.SyncTimeout)
	defer patience.Stop()
	for {
		select {
		case <-patience.C:
			if err := e.tracker.timedOut(e.limits.SyncTimeout); err != nil {
				return err
			}
		case <-elected: // every runnable was started
			elected = nil
			e.tracker.managerStarted()
		case <-e.tracker.synced:
			return nil
		case <-e.manager.done:
			return managerError(e.manager.err)
		case <-e.ctx.Done():
			return context.Cause(e.ctx)
		}
	}
}

// build makes everything that the graph provides.
func (e *epoch) build() error {
	config := kubeconfig.RESTConfig(e.config.Endpoint, e.remoteChain())
	config.UserAgent = e.userAgent()
	config.WarningHandlerWithContext = rest.NoWarnings{}
	httpClient := &http.Client{Transport: config.Transport}
	discover := func() (*mapping, error) { return e.mappings.discover(e.ctx, config, httpClient) }
	mapping, err := discover()
	if err != nil {
		return &remoteError{err}
	}
	e.mapper = newLiveMapper(mapping, discover)
	mgr, err := ctrl.NewManager(config, e.managerOptions())
	if err != nil {
		return fmt.Errorf("build the manager: %w", err)
	}
	hub, err := e.hubClient()
	if err != nil {
		return fmt.Errorf("build the client for the hub: %w", err)
	}
	e.values = values{
		Cluster: e.name, ClusterName: string(e.name), Info: e.info,
		Manager: mgr, Client: mgr.GetClient(), Reader: mgr.GetAPIReader(),
		Connection: mgr, Cache: mgr.GetCache(), Config: mgr.GetConfig(),
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		Events: &e.events, Log: e.log, Metrics: e.metrics,
		Hub: hub, HubCache: e.hubCache,
	}
	e.events.EventRecorder = mgr.GetEventRecorder("clusterfx")
	return nil
}

func (e *epoch) managerOptions() ctrl.Options {
	yes, forever := true, time.Duration(-1)
	namespaces := map[string]cache.Config{}
	for _, ns := range e.config.Namespaces {
		namespaces[ns] = cache.Config{}
	}
	return ctrl.Options{
		Scheme: e.scheme,
		Logger: e.log.V(1), // what it says of itself is of no interest a thousand times
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return e.mapper, nil
		},
		NewCache: func(config *rest.Config, o cache.Options) (cache.Cache, error) {
			inner, err := cache.New(config, o)
			if err != nil {
				return nil, err
			}
			return newAppCache(inner, e), nil
		},
		Cache: cache.Options{
			DefaultTransform:         cache.TransformStripManagedFields(),
			DefaultWatchErrorHandler: e.watchFailed,
			DefaultNamespaces:        namespaces,
		},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		PprofBindAddress:       "0",
		// A manager that gives up waiting for its runnables returns while they run: then nobody
		// would know that they do. Patience is the actor's.
		GracefulShutdownTimeout: &forever,
		Controller: ctrlconfig.Controller{
			// Names are unique in the process and never given back; every remote runs the same
			// modules (controller-runtime#2994).
			SkipNameValidation:    &yes,
			EnableWarmup:          &yes,  // tells when a controller has its objects; see warmer
			CacheSyncTimeout:      never, // it would end every module of the app; see waitUntilSynced
			ReconciliationTimeout: e.limits.ReconcileTimeout,
			Logger:                e.log,
		},
	}
}

func (e *epoch) remoteChain() http.RoundTripper {
	return &chain{
		base: e.base, fence: e.ctx, gate: e.gate, userAgent: e.userAgent(),
		limiter: rate.NewLimiter(rate.Limit(e.config.Client.QPS), e.config.Client.Burst),
		timeout: e.config.Client.Timeout,
	}
}

// Rate limit of one app towards the hub. Ten thousand apps share one hub API server, so that it
// is below that towards the remote.
const (
	hubQPS   = 20
	hubBurst = 40
)

func (e *epoch) hubClient() (client.Client, error) {
	transport := &chain{
		base: e.hubTransport, fence: e.ctx, gate: e.gate, userAgent: e.userAgent(),
		limiter: rate.NewLimiter(hubQPS, hubBurst), timeout: defaultRequestTimeout,
	}
	config := rest.CopyConfig(e.hub)
	config.QPS = -1
	return client.New(config, client.Options{
		HTTPClient: &http.Client{Transport: transport},
		Scheme:     e.scheme,
		Mapper:     e.hubMapper,
	})
}

// userAgent names the app to both API servers, so that their audit logs tell epochs apart.
func (e *epoch) userAgent() string {
	return fmt.Sprintf("clusterfx/%s/%s/%d", e.replica, e.name, e.number)
}

// cleanUp ends what run has started, and returns when all of it has ended. It gives the manager
// half of the stop timeout before it runs the hooks, which have the other half. Where something
// hangs for longer, the epoch is left behind as a zombie by its owner; it stays fenced.
func (e *epoch) cleanUp() {
	e.stop()
	half := e.limits.StopTimeout / 2
	e.manager.wait(half)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), half)
	defer cancel()
	if err := e.hooks.stop(ctx); err != nil {
		e.log.Error(err, "Some modules did not stop cleanly")
	}
	e.building.wait(never)
	e.manager.wait(never)
}

// never is longer than any hub lives.
const never = 100 * 365 * 24 * time.Hour
