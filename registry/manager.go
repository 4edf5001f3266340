// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	clienttransport "k8s.io/client-go/transport"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/registry/internal/decode"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/notes"
)

// connect makes everything that the graph provides. The first requests to the remote end with ctx, the context of the
// start; later requests do not.
func (e *epoch) connect(ctx context.Context) error {
	limiter := rate.NewLimiter(rate.Limit(e.config.Client.QPS), e.config.Client.Burst)
	config := e.configFor(e.ctx, limiter, e.judge(e.log, false)) // Also the hub's own code sends with it.
	var err error
	if e.mapper, err = e.mappings.NewMapper(ctx, e.ctx, config.Host, &http.Client{Transport: config.Transport}); err != nil {
		return &remoteError{err}
	}
	work := e.configFor(e.work, limiter, e.judge(e.log, false, e.chosen...))
	inner, err := ctrl.NewManager(config, e.managerOptions(work))
	if err != nil {
		return fmt.Errorf("build the manager: %w", err)
	}
	mgr := decode.Manager{Manager: inner}
	hub, err := e.hubClient()
	if err != nil {
		return fmt.Errorf("build the client for the hub: %w", err)
	}
	e.contained.Config = work
	e.values = values{
		Name: e.name, ClusterName: string(e.name), Status: e.info,
		Manager: mgr, Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(),
		Cluster: mgr, Cache: mgr.GetCache(), Config: work,
		Scheme: mgr.GetScheme(), RESTMapper: mgr.GetRESTMapper(),
		EventRecorder: &e.events, Logger: e.log, Quote: e.quote, Metrics: e.registerer,
		HubClient: hub, HubCache: e.hubCache,
	}
	e.events.EventRecorder = notes.Distinct(mgr.GetEventRecorder("clusterfx"), mgr.GetScheme())
	return nil
}

// gateOfRemote returns the gate for requests of this remote's app, or nil.
func (e *epoch) gateOfRemote() func() error {
	if e.gate == nil {
		return nil
	}
	return func() error { return e.gate(e.name) }
}

// configFor returns the configuration of clients whose requests a fence ends. All clients of an app share one
// limiter.
func (e *epoch) configFor(fence context.Context, limiter *rate.Limiter, judge func(*http.Request, int)) *rest.Config {
	c := &transport.Chain{
		Base: e.base, Fence: fence, Gate: e.gateOfRemote(), UserAgent: e.userAgent(),
		RateLimiter: limiter, Timeout: e.config.Client.Timeout,
		Meter: e.intake, Heard: e.heard, Traffic: e.traffic, Intercept: e.tracer.Requests(string(e.name), telemetry.ToRemote),
		Judge: judge,
	}
	c.Middleware = e.middleware.Wrap(e.name, e.wanted.Load, c.BelowMiddleware())
	config := kubeconfig.RESTConfig(e.config.Endpoint, c)
	config.UserAgent = e.userAgent()
	config.WarningHandlerWithContext = rest.NoWarnings{} // A remote could fill the hub's log with them.
	return config
}

// newClients makes the client of the modules, which writes with their fence, and keeps functions that make the client
// of leases, and clients that read from filtered caches.
func (e *epoch) newClients(work *rest.Config) client.NewClientFunc {
	return func(config *rest.Config, o client.Options) (client.Client, error) {
		e.lend = sync.OnceValues(func() (client.Client, error) { return decode.NewClient(client.New(config, o)) })
		ofModules := o
		ofModules.HTTPClient = &http.Client{Transport: work.Transport}
		e.contained.ReadingClient = func(from client.Reader) (client.Client, error) {
			return decode.NewClient(client.New(work, reading(from, ofModules)))
		}
		e.lendReading = func(from client.Reader) (client.Client, error) {
			return decode.NewClient(client.New(config, reading(from, o)))
		}
		return decode.NewClient(client.New(work, ofModules))
	}
}

// reading returns o with another cache.
func reading(from client.Reader, o client.Options) client.Options {
	var options client.CacheOptions
	if o.Cache != nil {
		options = *o.Cache
	}
	options.Reader = from
	o.Cache = &options
	return o
}

func (e *epoch) managerOptions(work *rest.Config) ctrl.Options {
	yes, forever := true, time.Duration(-1)
	namespaces := map[string]cache.Config{}
	for _, ns := range e.config.Namespaces {
		namespaces[ns] = cache.Config{}
	}
	return ctrl.Options{
		Scheme: e.scheme,
		Logger: logsink.QuietAfter(e.permission.Ended, e.log).V(1), // the same messages of each remote's manager are for debugging only
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return e.mapper, nil
		},
		NewCache:               e.newCache,
		NewClient:              e.newClients(work),
		Cache:                  cache.Options{DefaultNamespaces: namespaces},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		PprofBindAddress:       "0",
		// A manager that stops waiting for its runnables returns while they run, and the actor could not see that
		// they do. The actor limits the wait.
		GracefulShutdownTimeout: &forever,
		Controller: ctrlconfig.Controller{
			// Names are unique in the process and never released; every remote runs the same modules
			// (controller-runtime#2994).
			SkipNameValidation:    &yes,
			EnableWarmup:          &yes,  // shows when a controller has its objects; see contain.Manager.Add
			CacheSyncTimeout:      never, // it would end every module of the app; see waitUntilSynced
			ReconciliationTimeout: e.limits.ReconcileTimeout,
			Logger:                logsink.QuietAfter(e.permission.Ended, e.log),
		},
	}
}

// Limits of one app's client for the hub. Ten thousand apps share one hub API server, so the rate is
// below the default rate towards a remote.
const (
	hubQPS     = 20
	hubBurst   = 40
	hubTimeout = 10 * time.Second
)

func (e *epoch) hubClient() (client.Client, error) {
	chain := &transport.Chain{
		Base: e.hubTransportFor(), Fence: e.work, Gate: e.gateOfRemote(), UserAgent: e.userAgent(),
		RateLimiter: rate.NewLimiter(hubQPS, hubBurst), Timeout: hubTimeout,
		Meter: meter.NewLimiter(e.shapes, int64(e.limits.MaxCacheBytes)), Intercept: e.tracer.Requests(string(e.name), telemetry.ToHub),
		Judge: e.judge(e.log, true, e.chosen...),
	}
	config := rest.CopyConfig(e.hub)
	config.QPS = -1
	return client.New(config, client.Options{
		HTTPClient: &http.Client{Transport: chain},
		Scheme:     e.scheme,
		Mapper:     e.hubMapper,
	})
}

// hubTransportFor returns the transport to the hub: as the hub itself, or as a ServiceAccount that
// represents this remote alone.
func (e *epoch) hubTransportFor() http.RoundTripper {
	if e.appsNamespace == "" {
		return e.hubTransport
	}
	// Without groups in the request the API server adds the groups of the ServiceAccount. A request with groups would
	// need permission to impersonate groups.
	return clienttransport.NewImpersonatingRoundTripper(
		clienttransport.ImpersonationConfig{UserName: HubUser(e.appsNamespace, e.name)}, e.hubTransport,
	)
}

// userAgent names the app to both API servers, so that their audit logs tell epochs apart.
func (e *epoch) userAgent() string {
	return fmt.Sprintf("clusterfx/%s/%s/%d", e.replica, e.name, e.number)
}
