// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Options configure a registry. Hub and Scheme are required.
type Options struct {
	// Hub is the connection to the hub's API server. Each app gets a client made from it, with its own rate limit.
	Hub       *rest.Config
	HubMapper meta.RESTMapper // HubMapper maps kinds of the hub. Required.
	HubCache  client.Reader   // HubCache is the manage-cache of the apps. Default: a reader whose every read fails.
	// HubID is the UID of the hub's kube-system: a remote with this id needs AllowHub. Default "": not checked.
	HubID string
	// Scheme is shared by all apps; hub parts may add kinds in an invoke, not later. Required.
	Scheme        *runtime.Scheme
	Modules       []Module
	ModuleConfigs []moduleconfig.Config // ModuleConfigs are the operator's. Default: none.
	// Shared goes into every app; see Share. Default: none.
	Shared     []Shared
	Middleware []Middleware
	Policy     kubeconfig.Policy // Policy lists the credentials and addresses that the operator allows.
	Log        logr.Logger       // Log is the parent of every app's logger. Default: discards.
	// Explain completes a message of the log with advice for the problem, which is not zero. Default: as it is.
	Explain func(message string, problem state.Problem) string
	// Secrets receives the credentials of all remotes and the hub; loggers replace them. Default: a Redactor of the registry.
	Secrets  *kubeconfig.Redactor
	HubParts HubPartOptions        // HubParts are for FX. Default: nothing.
	Metrics  prometheus.Registerer // Metrics registers the collectors of the apps. Default: a registry of its own.
	// AggregateMetrics counts all remotes together, but for metrics of modules. Default: a series of each remote.
	AggregateMetrics bool
	// Traces receives all spans; no header carries them to a remote. Default: none, at no cost.
	Traces  trace.TracerProvider
	Replica string // Replica names this process in user agents and among its replicas. Default "hub".
	// Gate refuses each mutating request of a remote's app, and of leases of its client, while it returns an error. It keeps a hub
	// that stands by from writing; its errors should match ErrStandby. The term is the number of the permission, or zero; a
	// term other than zero ends the user agent of the request: clusterfx/hub/edge-1/12/term-7. Registry.AwaitWrites waits for
	// requests that have passed. Gate must not block. Default: open.
	Gate func(remote ClusterName) (term int64, err error)
	// Alive is for processes that share the remotes and the ConfigMap Holds. It reports whether the process with that
	// Replica is alive and active, and true if it cannot tell: the holds of one that is not get a successor. The holds
	// in a remote belong to the process whose Gate is open for it, and the term must change whenever another process
	// had the remote; with the empty name, Gate is open in an active process. Alive must not block, and needs Gate and
	// Replica. Default: this process has all remotes.
	Alive func(replica string) bool
	// Overloaded reports that the hub is late, as with its Lease. Then fewer apps start and fewer new remotes are contacted at a
	// time, down to one, since a hub whose Lease ends begins all starts again. It must not block. Default: never.
	Overloaded func() bool
	// Impersonate has each app act at the hub as its own ServiceAccount (rbac.HubUser), which need not exist but needs its modules'
	// permissions; the hub must be allowed to impersonate them. Default: as the hub.
	Impersonate bool
	// AppsNamespace is the namespace of these ServiceAccounts, and must hold nothing else. Required with Impersonate.
	AppsNamespace string
	// Root gives values to every context; its end does not replace Shutdown. Default: context.Background().
	Root    context.Context   //nolint:containedctx // It is an argument of New.
	Journal Journal           // Journal records which apps are being started. Default: none.
	Monitor *liveness.Monitor // Monitor watches the controllers of hub parts, and probes use its pulse. Default: none.
	// Holds is the ConfigMap that keeps the holds of deletes over a restart. Default: they end with the registry.
	Holds client.ObjectKey
	// CredentialsNamespace: Remote.HubObjects delivers no object of it, and no Secrets if it is not known. Default "": not known.
	CredentialsNamespace string
	Now                  func() time.Time // Now is the clock of holds. Default: time.Now.
	Rehearsal            *Rehearsal       // Rehearsal is for a hub that changes nothing. Default: none.
	// AllowHub permits the hub's own cluster as a remote, AllowDuplicates several names for one cluster. Default: false.
	AllowHub, AllowDuplicates bool
	Limits                    Limits

	paces paces
}

// paces has periods that only tests change. Zero fields have the values of a hub.
type paces struct {
	// Preflight is the pause after a preflight that found something missing. The others are in proportion.
	Preflight  time.Duration
	LeaseGrace time.Duration
	Overload   time.Duration // Overload is the time after which the queues narrow in an overload. They widen half as fast.
}

func (p paces) pauses() probe.Pauses {
	all := probe.NewPauses()
	if p.Preflight > 0 {
		faster := float64(p.Preflight) / float64(all.Retry)
		for _, one := range []*time.Duration{&all.Retry, &all.Interval, &all.Confirm} {
			*one = time.Duration(float64(*one) * faster)
		}
	}
	return all
}

const leaseGrace = 10 * time.Second // leaseGrace is how long leases continue after another app has replaced theirs.

// Limits bound the time and the memory of an app. Zero fields take the defaults.
type Limits struct {
	StartTimeout time.Duration // StartTimeout bounds all OnStart hooks of an app together. Default 30 s.
	SyncTimeout  time.Duration // SyncTimeout bounds the wait of a controller for its initial objects. Default 10 min.
	// StopTimeout is how long a fenced app may take to end before it is left behind as a zombie. Default 10 s.
	StopTimeout      time.Duration
	ReconcileTimeout time.Duration // ReconcileTimeout bounds one call of a Reconcile. Default 5 min.
	// StaleAfter is how long an informer may fail to list and watch before the app is Stale, StaleTolerance how long
	// before that counts as a failure. Defaults 30 s and 2 min.
	StaleAfter, StaleTolerance time.Duration
	Starts                     int // Starts is how many apps may be built and synced at the same time. Default 64.
	// MaxObjects and MaxCacheBytes (estimated) limit an app's cache; over it, the app ends: OverBudget. Defaults 100 000, 256 MiB.
	MaxObjects, MaxCacheBytes int
}

func (l Limits) withDefaults() Limits {
	l.StartTimeout = cmp.Or(max(l.StartTimeout, 0), 30*time.Second)
	l.SyncTimeout = cmp.Or(max(l.SyncTimeout, 0), 10*time.Minute)
	l.StopTimeout = cmp.Or(max(l.StopTimeout, 0), 10*time.Second)
	l.ReconcileTimeout = cmp.Or(max(l.ReconcileTimeout, 0), 5*time.Minute)
	l.StaleAfter = cmp.Or(max(l.StaleAfter, 0), 30*time.Second)
	l.StaleTolerance = cmp.Or(max(l.StaleTolerance, 0), 2*time.Minute)
	l.Starts = cmp.Or(max(l.Starts, 0), 64)
	l.MaxObjects = cmp.Or(max(l.MaxObjects, 0), 100_000)
	l.MaxCacheBytes = cmp.Or(max(l.MaxCacheBytes, 0), 256<<20)
	return l
}

// Journal records starts where they survive a crash: a module may take the process down, and the next starts such apps with care
// (state.CrashRecord). An app whose Begin fails is started anyway.
type Journal interface {
	// Begin returns when the note of a start would survive a crash, or with an error by the end of ctx. Alone: no other app starts
	// until End. The journal must log its failures for operators.
	Begin(ctx context.Context, name ClusterName, alone bool) error
	End(name ClusterName) // End notes that the app has proven itself, or has ended in good order. It must not block.
}

// ClusterName names a remote: a DNS label, unique within the hub.
type ClusterName = state.ClusterName

// Status is a snapshot of one remote, as the registry last saw it.
type Status = state.Status
