// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/deletions"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// connect's first requests end with ctx, the context of the start; later requests do not.
func (l *Life) connect(ctx context.Context) error {
	limiter := rate.NewLimiter(rate.Limit(l.Desired.Client.QPS), l.Desired.Client.Burst)
	// The hub's own code sends requests with it, too.
	config := l.configFor(l.ctx, l.Remote.Base, limiter)
	mapper, err := l.Mappings.NewMapper(ctx, l.ctx, restmapper.Remote{
		Host: config.Host, Client: &http.Client{Transport: config.Transport}, Early: l.Remote.Early,
	})
	if err != nil {
		return &remoteError{err}
	}
	work := l.configFor(l.work, l.Remote.Base, limiter)
	// The same messages of each remote's manager are for debugging only.
	err = l.MakeManager(config, mapper, logsink.QuietAfter(l.Contained.Gate.Ended, l.Log), func(o *cluster.Options) {
		o.NewClient = l.newClients(work)
	})
	if err != nil {
		return err
	}
	l.Contained.Config = work
	l.HubClient, err = l.hubClient()
	if err != nil {
		return fmt.Errorf("build the client for the hub: %w", err)
	}
	return nil
}

// gateOfRemote may be nil. It records the refusals.
func (l *Life) gateOfRemote() func() (term int64, err error) {
	if l.Gate == nil {
		return nil
	}
	return func() (int64, error) {
		term, err := l.Gate(l.Name)
		if err != nil {
			l.refused.Store(&err)
		}
		return term, err
	}
}

// target is that of deletes in the remote or, for a hub part, in the hub.
func (l *Life) target() deletions.Target {
	if l.Remote == nil {
		return l.targetInHub()
	}
	return deletions.Target{
		Name: l.Name, UID: l.Desired.Owner.UID, Labels: l.Desired.Labels, Blind: l.Blind, Term: l.gateOfRemote(), Judge: l.parents,
	}
}

func (l *Life) targetInHub() deletions.Target { return deletions.Target{Judge: l.parents} }

// Limiter counts deletes of entities for a module, whatever the context, as those in the remote, and declares those of cleanup
// steps. Those of a hub part are in the hub.
func (l *Life) Limiter(module *contain.Container) deletes.Limiter {
	return deletions.Limiter{Guard: l.Deletes, Target: l.target(), Context: func(ctx context.Context) context.Context {
		if module != nil {
			ctx = module.In(ctx)
		}
		return l.declared(ctx)
	}}
}

// declared declares the deletes of cleanup steps.
func (l *Life) declared(ctx context.Context) context.Context {
	if l.cleaning.Load() {
		return deletes.OnPurpose(ctx, deletes.Evidence{Kind: deletes.KindCleanup})
	}
	return ctx
}

// Deleting decides the deletes in the remote or, for a hub part, in the hub.
func (l *Life) Deleting() transport.Interceptor { return l.deletesIn(l.target()) }

// deletesIn declares all deletes of cleanup steps in the remote, whatever their context. The end of one Cluster is no
// evidence about objects in the hub.
func (l *Life) deletesIn(target deletions.Target) transport.Interceptor {
	return func(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		if l.cleaning.Load() && target.Name != "" {
			r = r.WithContext(l.declared(r.Context()))
		}
		return l.Deletes.RoundTrip(target, r, send)
	}
}

// homes are the API servers that may have the parent of an object that the App deletes.
func (l *Life) homes() []evidence.Home {
	if l.Remote == nil {
		return []evidence.Home{{Objects: l.HubPlace.Reader, Place: l.HubPlace}}
	}
	remote := l.Manager.GetAPIReader()
	return []evidence.Home{
		{Objects: remote, Place: evidence.Place{Reader: remote, Mapper: l.Manager.GetRESTMapper()}},
		{Objects: l.HubClient, Place: l.HubPlace},
	}
}

// configFor is for clients whose requests a fence ends, by way of base. All clients of an app share one limiter.
func (l *Life) configFor(fence context.Context, base http.RoundTripper, limiter *rate.Limiter) *rest.Config {
	if l.HubMiddleware != nil {
		base = transport.DryOnly(base)
	}
	c := &transport.Chain{
		Base: base, Fence: fence, Gate: l.gateOfRemote(), Writes: l.Writes.Of(string(l.Name)),
		UserAgent:   l.userAgent(),
		RateLimiter: limiter, Timeout: l.Desired.Client.Timeout,
		Meter: l.intake, Heard: l.Remote.LastReceived, Doubt: l.Remote.Doubt, Traffic: l.Metrics.Traffic(string(l.Name)),
		Intercept: l.Tracer.Requests(string(l.Name), telemetry.ToRemote),
		Deletes:   l.Deleting(),
	}
	c.Middleware = l.Remote.Middleware(c.BelowMiddleware())
	config := kubeconfig.RESTConfig(l.Desired.Endpoint, c)
	config.UserAgent = l.userAgent()
	config.WarningHandlerWithContext = rest.NoWarnings{} // A remote could fill the hub's log with them.
	return config
}

// NewEarly returns discovery documents to request before the app of a remote starts, with the limits that the app will have.
func (h *Common) NewEarly(name state.ClusterName, d state.Desired, base http.RoundTripper) *restmapper.Early {
	config := kubeconfig.RESTConfig(d.Endpoint, &transport.Chain{
		Base: base, Fence: h.Root, UserAgent: fmt.Sprintf("clusterfx/%s/%s/discovery", h.Replica, name),
		Timeout: d.Client.Timeout, Meter: meter.NewLimiter(h.Schemas, int64(h.Limits.MaxCacheBytes)),
		Traffic: h.Metrics.Traffic(string(name)), Intercept: h.Tracer.Requests(string(name), telemetry.ToRemote),
	})
	return h.Mappings.NewEarly(config.Host, &http.Client{Transport: config.Transport})
}

// newClients makes the client of the modules, with their fence, and keeps functions for the clients of leases, and for
// those that read from filtered caches.
func (l *Life) newClients(work *rest.Config) client.NewClientFunc {
	return func(config *rest.Config, o client.Options) (client.Client, error) {
		ofModules := o
		ofModules.HTTPClient = &http.Client{Transport: work.Transport}
		l.Contained.ReadingClient = func(from client.Reader) (client.Client, error) {
			return cache.NewCheckedClient(client.New(work, reading(from, ofModules)))
		}
		l.lend = func(from client.Reader) (client.Client, error) {
			return cache.NewCheckedClient(client.New(config, reading(from, o)))
		}
		return l.Contained.ReadingClient(nil)
	}
}

// reading has the reader of the options for nil.
func reading(from client.Reader, o client.Options) client.Options {
	if from == nil {
		return o
	}
	var options client.CacheOptions
	if o.Cache != nil {
		options = *o.Cache
	}
	options.Reader = from
	o.Cache = &options
	return o
}

// LendTo returns the client of leases: for a hub part with filters, a client that reads through them.
func (l *Life) LendTo(by *contain.Container) (client.Client, error) {
	module, from := "", client.Reader(nil)
	if all, ok := l.Manager.GetCache().(*cache.Cache); ok && by != nil && all.HasFilters(by.Module) {
		module, from = by.Module, all.As(by.Module, nil, false)
	}
	known, ok := l.lent.Load(module)
	if !ok {
		one, err := l.lend(from)
		if err != nil {
			return nil, err
		}
		known, _ = l.lent.LoadOrStore(module, one)
	}
	lent, _ := known.(client.Client)
	if by == nil {
		return lent, nil
	}
	return by.Client(lent), nil
}

// Limits of an app's client for the hub. Ten thousand apps share its API server, so the rate is low.
const (
	hubQPS     = 20
	hubBurst   = 40
	hubTimeout = 10 * time.Second
)

func (l *Life) hubClient() (client.Client, error) {
	chain := &transport.Chain{
		Base: l.Remote.HubTransport, Fence: l.work, Gate: l.gateOfRemote(), Writes: l.Writes.Of(string(l.Name)),
		UserAgent:   l.userAgent(),
		RateLimiter: rate.NewLimiter(hubQPS, hubBurst), Timeout: hubTimeout,
		Meter: meter.NewLimiter(l.Schemas, int64(l.Limits.MaxCacheBytes)), Intercept: l.Tracer.Requests(string(l.Name), telemetry.ToHub),
		Deletes: l.deletesIn(l.targetInHub()),
	}
	if l.HubMiddleware != nil {
		chain.Middleware = l.HubMiddleware(l.Name, chain.BelowMiddleware())
	}
	config := rest.CopyConfig(l.Hub)
	config.QPS = -1
	return client.New(config, client.Options{
		HTTPClient: &http.Client{Transport: chain},
		Scheme:     l.Scheme,
		Mapper:     l.HubMapper,
	})
}

// userAgent lets audit logs tell epochs apart. The chain of transports adds the term: clusterfx/hub/edge-1/12/term-7.
func (l *Life) userAgent() string {
	return fmt.Sprintf("clusterfx/%s/%s/%d", l.Replica, l.Name, l.Number)
}
