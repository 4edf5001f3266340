// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/deletions"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Values are made before the graph. The manager has the others.
type Values struct {
	Manager   ctrl.Manager
	Cache     ctrlcache.Cache
	Config    *rest.Config
	HubClient client.Client
}

// Values returns the values of the Epoch. Call it in Options.Graph or after the Epoch is ready.
func (e *Epoch) Values() Values { return e.values }

// connect's first requests end with ctx, the context of the start; later requests do not.
func (e *Epoch) connect(ctx context.Context) error {
	limiter := rate.NewLimiter(rate.Limit(e.options.Desired.Client.QPS), e.options.Desired.Client.Burst)
	// The hub's own code sends requests with it, too.
	config := e.configFor(e.ctx, e.options.Base, limiter)
	var err error
	e.mapper, err = e.Mappings.NewMapper(ctx, e.ctx, restmapper.Remote{
		Host: config.Host, Client: &http.Client{Transport: config.Transport}, Early: e.options.earlyDocuments(),
	})
	if err != nil {
		return &remoteError{err}
	}
	work := e.configFor(e.work, e.options.Base, limiter)
	inner, err := e.newManager(config, work)
	if err != nil {
		return fmt.Errorf("build the manager: %w", err)
	}
	mgr := cache.CheckedManager{Manager: inner}
	hub, err := e.hubClient()
	if err != nil {
		return fmt.Errorf("build the client for the hub: %w", err)
	}
	e.contained.Config = work
	e.values = Values{Manager: mgr, Cache: mgr.GetCache(), Config: work, HubClient: hub}
	e.SetRecorder(mgr)
	return nil
}

// gateOfRemote may be nil. It records the refusals.
func (e *Epoch) gateOfRemote() func() (term int64, err error) {
	if e.Gate == nil {
		return nil
	}
	return func() (int64, error) {
		term, err := e.Gate(e.Name)
		if err != nil {
			e.refused.Store(&refusal{err})
		}
		return term, err
	}
}

// remote is the target of deletes in the remote.
func (e *Epoch) remote() deletions.Target {
	return deletions.Target{
		Name: e.Name, UID: e.options.Desired.Owner.UID, Labels: e.options.Desired.Labels, Blind: e.Blind, Term: e.gateOfRemote(),
		Judge: &e.parents,
	}
}

// Limiter counts deletes of entities as those in the remote, and declares those of cleanup steps.
func (e *Epoch) Limiter() deletes.Limiter {
	return epochLimiter{deletions.Limiter{Guard: e.Deletes, Target: e.remote()}, e}
}

type epochLimiter struct {
	deletions.Limiter
	epoch *Epoch
}

func (l epochLimiter) Admit(ctx context.Context, what schema.GroupResource, name string, uid types.UID) (func(deleted bool), error) {
	if l.epoch.cleaning.Load() {
		ctx = deletes.OnPurpose(ctx, deletes.Evidence{Kind: deletes.KindCleanup})
	}
	return l.Limiter.Admit(ctx, what, name, uid)
}

// deletesIn declares all deletes of cleanup steps in the remote, whatever their context. The end of one Cluster is no
// evidence about objects in the hub.
func (e *Epoch) deletesIn(target deletions.Target) transport.Interceptor {
	return func(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		if e.cleaning.Load() && target.Name != "" {
			r = r.WithContext(deletes.OnPurpose(r.Context(), deletes.Evidence{Kind: deletes.KindCleanup}))
		}
		return e.Deletes.RoundTrip(target, r, send)
	}
}

// homes are the API servers that may have the parent of an object that the app deletes.
func (e *Epoch) homes() []evidence.Home {
	remote := e.values.Manager.GetAPIReader()
	return []evidence.Home{
		{Objects: remote, Place: evidence.Place{Reader: remote, Mapper: e.mapper}},
		{Objects: e.values.HubClient, Place: e.HubPlace},
	}
}

// configFor is for clients whose requests a fence ends, by way of base. All clients of an app share one limiter.
func (e *Epoch) configFor(fence context.Context, base http.RoundTripper, limiter *rate.Limiter) *rest.Config {
	c := &transport.Chain{
		Base: base, Fence: fence, Gate: e.gateOfRemote(), Writes: e.Writes.Of(string(e.Name)),
		UserAgent:   e.userAgent(),
		RateLimiter: limiter, Timeout: e.options.Desired.Client.Timeout,
		Meter: e.intake, Buffers: e.Buffers, Heard: e.options.LastReceived, Doubt: e.options.Doubt, Traffic: e.traffic,
		Intercept: e.Tracer.Requests(string(e.Name), telemetry.ToRemote),
		Deletes:   e.deletesIn(e.remote()),
	}
	c.Middleware = e.options.Middleware(c.BelowMiddleware())
	config := kubeconfig.RESTConfig(e.options.Desired.Endpoint, c)
	config.UserAgent = e.userAgent()
	config.WarningHandlerWithContext = rest.NoWarnings{} // A remote could fill the hub's log with them.
	return config
}

// newClients makes the client of the modules, with their fence, and keeps functions for the clients of leases, and for
// those that read from filtered caches.
func (e *Epoch) newClients(work *rest.Config) client.NewClientFunc {
	return func(config *rest.Config, o client.Options) (client.Client, error) {
		e.lend = sync.OnceValues(func() (client.Client, error) { return cache.NewCheckedClient(client.New(config, o)) })
		ofModules := o
		ofModules.HTTPClient = &http.Client{Transport: work.Transport}
		e.contained.ReadingClient = func(from client.Reader) (client.Client, error) {
			return cache.NewCheckedClient(client.New(work, reading(from, ofModules)))
		}
		e.lendReading = func(from client.Reader) (client.Client, error) {
			return cache.NewCheckedClient(client.New(config, reading(from, o)))
		}
		return cache.NewCheckedClient(client.New(work, ofModules))
	}
}

func reading(from client.Reader, o client.Options) client.Options {
	var options client.CacheOptions
	if o.Cache != nil {
		options = *o.Cache
	}
	options.Reader = from
	o.Cache = &options
	return o
}

// Limits of an app's client for the hub. Ten thousand apps share its API server, so the rate is low.
const (
	hubQPS     = 20
	hubBurst   = 40
	hubTimeout = 10 * time.Second
)

func (e *Epoch) hubClient() (client.Client, error) {
	chain := &transport.Chain{
		Base: e.options.HubTransport, Fence: e.work, Gate: e.gateOfRemote(), Writes: e.Writes.Of(string(e.Name)),
		UserAgent:   e.userAgent(),
		RateLimiter: rate.NewLimiter(hubQPS, hubBurst), Timeout: hubTimeout,
		Meter: meter.NewLimiter(e.Schemas, int64(e.Limits.MaxCacheBytes)), Intercept: e.Tracer.Requests(string(e.Name), telemetry.ToHub),
		Deletes: e.deletesIn(deletions.Target{Judge: &e.parents}),
	}
	config := rest.CopyConfig(e.Hub)
	config.QPS = -1
	return client.New(config, client.Options{
		HTTPClient: &http.Client{Transport: chain},
		Scheme:     e.Scheme,
		Mapper:     e.HubMapper,
	})
}

// userAgent lets audit logs tell epochs apart. The chain of transports adds the term: clusterfx/hub/edge-1/12/term-7.
func (e *Epoch) userAgent() string {
	return fmt.Sprintf("clusterfx/%s/%s/%d", e.Replica, e.Name, e.Number)
}
