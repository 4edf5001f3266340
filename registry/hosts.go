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
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/claims"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/inflight"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/middleware"
	"github.com/clusterfx/clusterfx/registry/internal/permissions"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

// This file makes what the parts of a registry share: a Host of the package app, which all Apps share, in a Host of the
// package actor, which all remotes share.

// newAppHost returns what all Apps of the registry share, and the function that ends their contexts.
func newAppHost(o Options) (*app.Host, context.CancelFunc) {
	root := o.Root
	if root == nil {
		root = context.Background()
	}
	root, end := context.WithCancel(context.WithoutCancel(root))
	h := &app.Host{
		Root: root, Replica: cmp.Or(o.Replica, "hub"), Scheme: o.Scheme, Schemas: meter.NewSchemas(o.Scheme),
		Hub: o.Hub, HubMapper: o.HubMapper, Mappings: &restmapper.Mappings{}, Buffers: &transport.Buffers{},
		Registerer: o.Metrics, Tracer: tracerFor(o.Traces), Queues: contain.NewQueues(), Gate: o.Gate,
		Journal: app.NewJournal(o.Journal), Limits: app.Limits(o.Limits.withDefaults()),
	}
	if o.Gate != nil {
		h.Writes = inflight.New()
	}
	if h.Registerer == nil {
		h.Registerer = prometheus.NewRegistry()
	}
	h.Metrics = telemetry.NewMetrics(h.Registerer, o.AggregateMetrics)
	h.Starts = startqueue.New(h.Limits.Starts, startTurn, o.overloaded).Adapting(o.paces.Overload)
	return h, end
}

// overloaded reports whether the hub has more work than it can do in time.
func (o Options) overloaded() bool { return o.Overloaded != nil && o.Overloaded() }

// startSlots returns how many apps may start, and how many remotes may be contacted first, at the same time now.
func (r *Registry) startSlots() map[string]int {
	return map[string]int{"apps": r.remotes.Apps.Starts.Width(), "contacts": r.remotes.Connections.Contacts.Width()}
}

// newRemotes returns what all remotes share. The functions of the Host lead back to the registry.
func (r *Registry) newRemotes(o Options, modules catalog.Catalog, inForce *middleware.Set) *actor.Host {
	apps, end := newAppHost(o)
	r.end = end
	declared := func(module string) (permissions.Declaration, bool) { return declared(modules, module) }
	hub := logsink.NewHubCredential(o.Hub, o.Secrets)
	epochs := o.Epochs
	if epochs == nil {
		epochs = &atomic.Int64{}
	}
	return &actor.Host{
		Apps: apps, Log: r.log, Key: []byte(rand.Text()), Policy: o.Policy,
		Connections: probe.Options{
			Contacts: startqueue.New(contacts, contactTurn, o.overloaded).Adapting(o.paces.Overload), Tracer: apps.Tracer, Metrics: apps.Metrics,
			Beat: r.pulse.beat, Starved: r.pulse.StarvedSince, Pauses: o.paces.pauses(),
			Redact: func(t *kubeconfig.Transport) func(string) string {
				return func(text string) string { return hub.Redact(t.Redact(text)) }
			},
		},
		Secrets: o.Secrets, HubCredential: hub, Hearts: o.Heartbeats,
		Declared: func(run []catalog.Choice, labels map[string]string) func(string) (permissions.Declaration, bool) {
			return declaredIn(modules, run, labels)
		},
		Modules: modules, Offered: r.offered, Middleware: inForce, Rulebook: permissions.New(declared),
		HubTransport: r.hubTransportFor, Graph: r.graph, Explain: explanations(o.Explain),
		NextEpoch: func() int64 { return epochs.Add(1) }, LeaseGrace: orDefault(o.paces.LeaseGrace, leaseGrace),
		Claim: r.claim, IsHub: r.isHub, Forget: r.forget, Changed: r.changed,
	}
}

// explanations returns a function that completes a message for the log with the program's advice about its problem, if
// there is any.
func explanations(explain func(string, state.Problem) string) func(string, state.Problem) string {
	return func(message string, problem state.Problem) string {
		if explain == nil || problem == (state.Problem{}) {
			return message
		}
		return explain(message, problem)
	}
}

// changed publishes a change of a remote.
func (r *Registry) changed(e actor.Event) {
	r.events.publish(Event{Name: e.Name, Kind: EventKind(e.Kind), Epoch: e.Epoch})
}

// Limits of starts and first contacts. A start keeps its slot while the app is built and receives its initial
// objects. A first contact keeps its slot as long as a healthy API server needs to respond; then the next remote gets
// the slot.
const (
	startTurn   = 5 * time.Second
	contacts    = 64
	contactTurn = 200 * time.Millisecond
)

// hubTransportFor returns the transport of an app to the hub: as the hub itself, or as a ServiceAccount that represents
// this remote alone.
func (r *Registry) hubTransportFor(name ClusterName) http.RoundTripper {
	if r.appsNamespace == "" {
		return r.hubTransport
	}
	// Without groups in the request the API server adds the groups of the ServiceAccount. A request with groups would
	// need permission to impersonate groups.
	return clienttransport.NewImpersonatingRoundTripper(
		clienttransport.ImpersonationConfig{UserName: rbac.HubUser(r.appsNamespace, string(name))}, r.hubTransport,
	)
}

// tracerFor returns the tracer of a registry, or nil for a nil provider.
func tracerFor(p trace.TracerProvider) *telemetry.Tracer {
	return telemetry.NewTracer(p, telemetry.TracerOptions{RequestReason: app.ReasonOfRequest, Module: func(ctx context.Context) (string, bool) {
		if g := contain.GuardOf(ctx); g != nil {
			return g.Module, true
		}
		return "", false
	}})
}

// isHub reports whether an id belongs to the hub's cluster although Options.AllowHub is not set.
func (r *Registry) isHub(id string) bool { return id == r.hubID && !r.allowHub }

// claim claims the cluster with this id for the remote called name. It returns the name of an older remote that has the
// claim, if any. A younger remote that loses its claim is probed at once, and learns of it.
func (r *Registry) claim(id string, name ClusterName, since time.Time) (holder ClusterName) {
	if r.allowTwin {
		return ""
	}
	holder, loser := r.claims.Take(id, claims.Claim{Name: name, Since: since})
	r.mu.RLock()
	a := r.actors[loser]
	r.mu.RUnlock()
	if a != nil {
		a.ProbeNow()
	}
	return holder
}
