// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/middleware"
	"github.com/clusterfx/clusterfx/registry/internal/permissions"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// environment has the values that all epochs of a registry share.
type environment struct {
	root          context.Context //nolint:containedctx // The parent of all contexts; it ends after Shutdown.
	end           context.CancelFunc
	hub           *rest.Config
	secrets       *kubeconfig.Redactor
	hubCredential *hubCredential
	hubTransport  http.RoundTripper
	hubMapper     meta.RESTMapper
	hubCache      client.Reader
	appsNamespace string // whose ServiceAccounts the apps act as in the hub; empty for the hub itself
	replica       string
	scheme        *runtime.Scheme
	shapes        *meter.Schemas
	modules       catalog
	shared        []Shared
	offers        atomic.Pointer[offers] // the values that the hub parts of modules share now
	middleware    *middleware.Set
	registerer    prometheus.Registerer
	metrics       *telemetry.Metrics
	tracer        *telemetry.Tracer // nil for none
	gate          func(ClusterName) error
	limits        Limits
	mappings      restmapper.Mappings
	policy        kubeconfig.Policy
	journal       *journal
	rulebook      *permissions.Rulebook
	stepsSeen
	starts   *startqueue.Queue // of apps
	contacts *startqueue.Queue // of first probes
	pulse    *liveness.Pulse
	beat     func()         // makes sure that the pulse beats
	beating  sync.WaitGroup // the pulse, if the registry owns it
	hearts   *liveness.Monitor
	epochs   *atomic.Int64 // started so far, of all remotes
}

func newEnvironment(o Options, modules catalog, inForce *middleware.Set, transport http.RoundTripper) *environment {
	env := &environment{
		hub: o.Hub, hubTransport: transport, hubMapper: o.HubMapper, hubCache: o.HubCache,
		secrets: o.Secrets, hubCredential: &hubCredential{config: o.Hub, secrets: o.Secrets},
		replica: o.Replica, scheme: o.Scheme, shapes: meter.NewSchemas(o.Scheme), policy: o.Policy,
		modules: modules, shared: o.Shared, middleware: inForce,
		registerer: o.Metrics, gate: o.Gate, limits: o.Limits.withDefaults(), tracer: tracerFor(o.Traces),
	}
	if o.Impersonate {
		env.appsNamespace = o.AppsNamespace
	}
	root := o.Root
	if root == nil {
		root = context.Background()
	}
	env.root, env.end = context.WithCancel(context.WithoutCancel(root))
	if env.registerer == nil {
		env.registerer = prometheus.NewRegistry()
	}
	env.metrics = telemetry.NewMetrics(env.registerer, o.AggregateMetrics)
	if env.replica == "" {
		env.replica = "hub"
	}
	if env.hubCache == nil {
		env.hubCache = noCache{}
	}
	env.journal = newJournal(o.Journal)
	env.rulebook = permissions.New(env.declared)
	env.starts = startqueue.New(env.limits.Starts, startTurn)
	env.contacts = startqueue.New(contacts, contactTurn)
	env.usePulse(o.Heartbeats)
	if env.epochs = o.Epochs; env.epochs == nil {
		env.epochs = &atomic.Int64{}
	}
	return env
}

// linkOptions returns the options that all connections share.
func (e *environment) linkOptions() probe.Options {
	return probe.Options{
		Contacts: e.contacts, Tracer: e.tracer, Metrics: e.metrics,
		Beat: e.beat, Starved: e.pulse.StarvedSince, Redact: e.redactFor,
	}
}

// usePulse uses the pulse of the monitor, or else a pulse of the registry, which beats from the first connection to
// the end of the root.
func (e *environment) usePulse(hearts *liveness.Monitor) {
	e.hearts, e.pulse, e.beat = hearts, hearts.Pulse(), func() {}
	if e.pulse == nil {
		e.pulse = liveness.NewPulse()
		e.beat = sync.OnceFunc(func() { e.beating.Go(func() { e.pulse.Run(e.root) }) })
	}
}

// Limits of starts and first contacts. A start keeps its slot while the app is built and receives its initial
// objects. A first contact keeps its slot as long as a healthy API server needs to respond; then the next remote gets
// the slot.
const (
	startTurn   = 5 * time.Second
	contacts    = 64
	contactTurn = 200 * time.Millisecond
)
