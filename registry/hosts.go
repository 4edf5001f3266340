// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	clienttransport "k8s.io/client-go/transport"

	"github.com/clusterfx/clusterfx/registry/internal/actor"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

// This file makes what the parts of a registry share: a Host of the package app within a Host of the package actor.

func newAppHost(o Options) (*app.Common, context.CancelFunc) {
	root := o.Root
	if root == nil {
		root = context.Background()
	}
	root, end := context.WithCancel(context.WithoutCancel(root))
	h := &app.Common{
		Root: root, Replica: cmp.Or(o.Replica, "hub"), Scheme: o.Scheme, Schemas: meter.NewSchemas(o.Scheme),
		Hub: o.Hub, HubMapper: o.HubMapper, Mappings: &restmapper.Mappings{},
		Registerer: o.Metrics, Tracer: tracerFor(o.Traces), Queues: contain.NewQueues(), Gate: o.Gate,
		Journal: app.NewJournal(o.Journal), Limits: app.Limits(o.Limits.withDefaults()),
	}
	if o.Rehearsal != nil {
		h.Queues, h.HubMiddleware = contain.NewCountedQueues(), o.Rehearsal.Hub
	}
	if o.Gate != nil {
		h.Writes = transport.NewWrites()
	}
	if h.Registerer == nil {
		h.Registerer = prometheus.NewRegistry()
	}
	h.Metrics = telemetry.NewMetrics(h.Registerer, o.AggregateMetrics)
	h.Starts = startqueue.New(h.Limits.Starts, startTurn, o.overloaded).Adapting(o.paces.Overload)
	return h, end
}

func (o Options) overloaded() bool { return o.Overloaded != nil && o.Overloaded() }

// startSlots returns how many apps may start, and how many first contacts may run, now.
func (r *Registry) startSlots() map[string]int {
	return map[string]int{"apps": r.remotes.Apps.Starts.Width(), "contacts": r.remotes.Connections.Contacts.Width()}
}

// newRemotes makes a Host whose functions lead back to the registry.
func (r *Registry) newRemotes(o Options, modules catalog.Catalog) *actor.Common {
	apps, end := newAppHost(o)
	r.end = end
	var epochs atomic.Int64
	return &actor.Common{
		Apps: apps, Log: r.log, Key: []byte(rand.Text()), Policy: o.Policy,
		Connections: probe.Options{
			Contacts: startqueue.New(contacts, contactTurn, o.overloaded).Adapting(o.paces.Overload), Tracer: apps.Tracer, Metrics: apps.Metrics,
			Starved: r.pulse.StarvedSince, Pauses: o.paces.pauses(),
			Redact: o.Secrets.Redact,
		},
		Secrets: o.Secrets,
		Undeclared: func(run []catalog.Choice, labels map[string]string) cache.Undeclared {
			return undeclaredIn(modules, run, labels)
		},
		Modules: modules, Offered: r.offered, Middleware: r.middleware,
		HubTransport: r.hubTransportFor, Graph: r.graph, Explain: explanations(o.Explain),
		NextEpoch: func() int64 { return epochs.Add(1) }, LeaseGrace: cmp.Or(max(o.paces.LeaseGrace, 0), leaseGrace),
		Claim: r.claim, IsHub: r.isHub, Forget: r.forget, Changed: r.changed,
	}
}

// explanations completes messages for the log with the program's advice.
func explanations(explain func(string, state.Problem) string) func(string, state.Problem) string {
	return func(message string, problem state.Problem) string {
		if explain == nil || problem == (state.Problem{}) {
			return message
		}
		return explain(message, problem)
	}
}

func (r *Registry) changed(before, after *actor.Snapshot) {
	now, kind := after.Status, EventChanged
	switch {
	case now.State == state.StateStopped:
		kind = EventStopped
	case after.Epoch != nil && after.Epoch != before.Epoch:
		kind = EventReady
	case after.Epoch == nil && before.Epoch != nil:
		kind = EventLost
	}
	r.events.publish(Event{Name: now.Name, Kind: kind, Epoch: now.Epoch})
}

// A start has its slot until its initial objects are there, a first contact as long as a healthy API server responds.
const (
	startTurn   = 5 * time.Second
	contacts    = 64
	contactTurn = 200 * time.Millisecond
)

// hubTransportFor acts as the hub itself, or as a ServiceAccount that represents this remote alone.
func (r *Registry) hubTransportFor(name ClusterName) http.RoundTripper {
	if r.appsNamespace == "" {
		return r.hubTransport
	}
	// Without groups the API server adds those of the ServiceAccount; groups would need permission to impersonate them.
	return clienttransport.NewImpersonatingRoundTripper(
		clienttransport.ImpersonationConfig{UserName: rbac.HubUser(r.appsNamespace, string(name))}, r.hubTransport,
	)
}

// tracerFor returns nil for a nil provider.
func tracerFor(p trace.TracerProvider) *telemetry.Tracer {
	return telemetry.NewTracer(p, telemetry.TracerOptions{RequestReason: app.ReasonOfRequest, Module: func(ctx context.Context) (string, bool) {
		if g := contain.GuardOf(ctx); g != nil {
			return g.Module, true
		}
		return "", false
	}})
}

func (r *Registry) isHub(id string) bool { return id == r.hubID && !r.allowHub }

// claim returns an older remote of that cluster. A younger remote that loses its claim is probed at once, and learns of it.
func (r *Registry) claim(id string, name ClusterName, since time.Time) (holder ClusterName) {
	if r.allowTwin {
		return ""
	}
	r.mu.Lock()
	holder, loser := r.claims.take(id, claim{name, since})
	a := r.actors[loser]
	r.mu.Unlock()
	if a != nil {
		a.ProbeNow()
	}
	return holder
}
