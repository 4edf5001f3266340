// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clienttransport "k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/middleware"
	"github.com/clusterfx/clusterfx/registry/internal/permissions"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/internal/redact"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/state"
)

// environment has the values that all epochs of a registry share.
type environment struct {
	host          *app.Host
	end           context.CancelFunc // of the root of the host, after Shutdown
	secrets       *kubeconfig.Redactor
	hubCredential *redact.Hub
	hubTransport  http.RoundTripper
	hubCache      client.Reader
	appsNamespace string // whose ServiceAccounts the apps act as in the hub; empty for the hub itself
	modules       catalog.Catalog
	shared        []catalog.Shared
	offers        atomic.Pointer[catalog.Offers] // the values that the hub parts of modules share now
	middleware    *middleware.Set
	policy        kubeconfig.Policy
	rulebook      *permissions.Rulebook
	explain       func(string, state.Problem) string // Options.Explain; nil for none
	stepsSeen
	contacts *startqueue.Queue // of first probes
	pulse    *liveness.Pulse
	beat     func()         // makes sure that the pulse beats
	beating  sync.WaitGroup // the pulse, if the registry owns it
	hearts   *liveness.Monitor
	epochs   *atomic.Int64 // started so far, of all remotes
}

func newEnvironment(o Options, modules catalog.Catalog, inForce *middleware.Set, transport http.RoundTripper) *environment {
	env := &environment{
		hubTransport: transport, hubCache: o.HubCache,
		secrets: o.Secrets, hubCredential: redact.NewHub(o.Hub, o.Secrets), policy: o.Policy,
		modules: modules, shared: sharedValues(o.Shared), middleware: inForce, explain: o.Explain,
	}
	env.host, env.end = newHost(o)
	if o.Impersonate {
		env.appsNamespace = o.AppsNamespace
	}
	if env.hubCache == nil {
		env.hubCache = noCache{}
	}
	env.rulebook = permissions.New(env.declared)
	env.contacts = startqueue.New(contacts, contactTurn)
	env.usePulse(o.Heartbeats)
	if env.epochs = o.Epochs; env.epochs == nil {
		env.epochs = &atomic.Int64{}
	}
	return env
}

// newHost returns what all Apps of the registry share, and the function that ends their contexts.
func newHost(o Options) (*app.Host, context.CancelFunc) {
	root := o.Root
	if root == nil {
		root = context.Background()
	}
	root, end := context.WithCancel(context.WithoutCancel(root))
	h := &app.Host{
		Root: root, Replica: cmp.Or(o.Replica, "hub"), Scheme: o.Scheme, Schemas: meter.NewSchemas(o.Scheme),
		Hub: o.Hub, HubMapper: o.HubMapper, Mappings: &restmapper.Mappings{},
		Registerer: o.Metrics, Tracer: tracerFor(o.Traces), Gate: o.Gate,
		Journal: app.NewJournal(o.Journal), Limits: app.Limits(o.Limits.withDefaults()),
	}
	if h.Registerer == nil {
		h.Registerer = prometheus.NewRegistry()
	}
	h.Metrics = telemetry.NewMetrics(h.Registerer, o.AggregateMetrics)
	h.Starts = startqueue.New(h.Limits.Starts, startTurn)
	return h, end
}

// explained returns a message for the log, with the program's advice about its problem.
func (e *environment) explained(message string, problem state.Problem) string {
	if e.explain == nil || problem == (state.Problem{}) {
		return message
	}
	return e.explain(message, problem)
}

// linkOptions returns the options that all connections share.
func (e *environment) linkOptions() probe.Options {
	return probe.Options{
		Contacts: e.contacts, Tracer: e.host.Tracer, Metrics: e.host.Metrics,
		Beat: e.beat, Starved: e.pulse.StarvedSince, Redact: e.redactFor,
	}
}

// usePulse uses the pulse of the monitor, or else a pulse of the registry, which beats from the first connection to
// the end of the root.
func (e *environment) usePulse(hearts *liveness.Monitor) {
	e.hearts, e.pulse, e.beat = hearts, hearts.Pulse(), func() {}
	if e.pulse == nil {
		e.pulse = liveness.NewPulse()
		e.beat = sync.OnceFunc(func() { e.beating.Go(func() { e.pulse.Run(e.host.Root) }) })
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

// hubTransportFor returns the transport of an app to the hub: as the hub itself, or as a ServiceAccount that represents
// this remote alone.
func (e *environment) hubTransportFor(name ClusterName) http.RoundTripper {
	if e.appsNamespace == "" {
		return e.hubTransport
	}
	// Without groups in the request the API server adds the groups of the ServiceAccount. A request with groups would
	// need permission to impersonate groups.
	return clienttransport.NewImpersonatingRoundTripper(
		clienttransport.ImpersonationConfig{UserName: HubUser(e.appsNamespace, name)}, e.hubTransport,
	)
}
