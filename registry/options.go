// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"sync/atomic"
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
	// Hub is the connection to the hub's API server. Every app gets a client of its own made
	// from it, with its own rate limit.
	Hub *rest.Config
	// HubMapper maps kinds of the hub. Required.
	HubMapper meta.RESTMapper
	// HubCache is the manage-cache of the apps. Default: a reader whose every read fails.
	HubCache client.Reader
	// HubID is the id of the hub's own cluster (the UID of its kube-system Namespace). A remote
	// with this id is refused unless AllowHub is set. Default "": not checked.
	HubID string
	// Scheme is shared by all apps. The hub part of a module may add kinds to it, in an invoke; once the hub's
	// manager has started it must no longer change. Required.
	Scheme *runtime.Scheme
	// Modules run in the apps.
	Modules []Module
	// ModuleConfigs are the operator's configurations of the modules. Default: none.
	ModuleConfigs []moduleconfig.Config
	// Shared are values that go into every app. Default: none. See Share.
	Shared []Shared
	// Middleware changes the requests to remotes. Default: none.
	Middleware []Middleware
	// Policy lists the credentials and addresses that the operator allows.
	Policy kubeconfig.Policy
	// Log is the parent of every app's logger. Default: discards.
	Log logr.Logger
	// Explain completes a message of the registry's log with what a user of this program can do about the problem, which
	// is not zero. Default: the message stays as it is.
	Explain func(message string, problem state.Problem) string
	// Secrets receives the credentials of all remotes and of the hub, so that loggers can replace them; the loggers
	// of the registry, the apps and the hub parts do. Default: a Redactor of the registry.
	Secrets *kubeconfig.Redactor
	// HubParts are the options of the program for the hub parts of modules. They are for FX. Default: nothing.
	HubParts HubPartOptions
	// Metrics registers the collectors of the apps. Default: a registry of its own.
	Metrics prometheus.Registerer
	// AggregateMetrics counts all remotes together in the registry's own metrics, for fleets that are too large for a
	// series of each remote. Metrics of modules keep the label. Default: a series of each remote.
	AggregateMetrics bool
	// Traces receives the spans of apps, probes, leases, reconciles and requests. No header of a request carries them
	// to a remote. Default: no spans, at no cost.
	Traces trace.TracerProvider
	// Replica names this process in user agents, and among those that share the remotes of a hub. Default "hub".
	Replica string
	// Gate refuses each mutating request of the app of a remote, and of leases of its client, while it returns an error
	// for the remote. It keeps a hub from writing that is no longer the leader. Its errors should match ErrNotLeader.
	// The term is the number of the permission, such as the epoch of a shard, and zero if permissions have no number. A term
	// that is not zero is in the user agent of the request, as the last part: clusterfx/hub/edge-1/12/term-7.
	// Registry.AwaitWrites waits for the requests that have passed. Gate must not block. Default: open.
	Gate func(remote ClusterName) (term int64, err error)
	// Alive is for a hub whose processes share the remotes and the ConfigMap Holds. It reports whether the process with that
	// Replica is alive, and true if this process cannot tell: the holds of deletes of a process that is not alive get a
	// successor. The holds in a remote belong to the process whose Gate is open for the remote, and its term must change
	// whenever another process had the remote. Alive must not block. Gate and Replica are required with it. Default: this
	// process has all remotes.
	Alive func(replica string) bool
	// Overloaded reports whether the hub has more work than it can do in time, for example because it is late to renew its Lease. The
	// registry then starts fewer apps at the same time, and contacts fewer new remotes, down to one, until it is false again: a hub
	// whose Lease ends because of all the starts would have to begin them again. Overloaded must not block. Default: never.
	Overloaded func() bool
	// Impersonate makes every app act at the hub's API server as a ServiceAccount of its own (see rbac.HubUser), so that
	// the hub's RBAC limits the effects of a remote there. The hub needs permission to impersonate the
	// ServiceAccounts of AppsNamespace, and each of these the permissions that its modules need. They need not exist.
	// Default: apps act as the hub itself.
	Impersonate bool
	// AppsNamespace is the namespace of these ServiceAccounts, which holds nothing else. Required with
	// Impersonate.
	AppsNamespace string
	// Root is the parent of every context of the registry, for its values, such as labels of profiles.
	// Its end does not end the registry; call Shutdown for that. Default: context.Background().
	Root context.Context //nolint:containedctx // It is an argument of New.
	// Epochs counts the epochs of a process that has one registry after another. Default: a counter of the registry.
	Epochs *atomic.Int64
	// Journal records which apps are being started. Default: none.
	Journal Journal
	// Heartbeats watches the goroutine of each remote. Default: no watch.
	Heartbeats *liveness.Monitor
	// Holds is the ConfigMap of the hub that keeps the holds of deletes, so that a restart does not end them. Default: they
	// end with the registry.
	Holds client.ObjectKey
	// CredentialsNamespace is the namespace of the hub with the credentials of remotes. Remote.HubObjects delivers no object
	// of it, and no Secrets at all if it is not known. Default "": not known.
	CredentialsNamespace string
	// Now returns the time for the holds of deletes. Default: time.Now.
	Now func() time.Time
	// AllowHub permits that a remote is the hub's own cluster. AllowDuplicates permits several
	// names for one cluster. Both default to false.
	AllowHub, AllowDuplicates bool
	// Limits bound how long things may take. Zero fields take the defaults.
	Limits Limits

	paces paces
}

// paces has periods that only tests change. Zero fields have the values of a hub.
type paces struct {
	// Preflight is the pause after a preflight that found something missing. The other pauses are in proportion.
	Preflight time.Duration
	// LeaseGrace is how long the leases of an app continue after another app has replaced it.
	LeaseGrace time.Duration
	// Overload is the time after which the queues become narrower in an overload. They become wider half as fast.
	Overload time.Duration
}

// pauses returns the pauses of preflights.
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

// leaseGrace is how long the leases of an app continue after another app has replaced it.
const leaseGrace = 10 * time.Second

// Limits bound how long the steps of an app may take, and how much memory it may hold.
type Limits struct {
	// StartTimeout bounds the OnStart hooks of one app together. Default 30 s.
	StartTimeout time.Duration
	// SyncTimeout bounds how long a controller may wait for its initial objects. Default 10 min.
	SyncTimeout time.Duration
	// StopTimeout is how long an app may take to end once it is fenced; after that it is left
	// behind as a zombie. Default 10 s.
	StopTimeout time.Duration
	// ReconcileTimeout bounds one call of a Reconcile. Default 5 min.
	ReconcileTimeout time.Duration
	// StaleAfter is for how long an informer of an app may be unable to list and watch before the app is Stale, and
	// StaleTolerance for how long the app is Stale before that counts as a failure. Defaults 30 s and 2 min.
	StaleAfter, StaleTolerance time.Duration
	// Starts is how many apps may be built and synced at the same time. Default 64.
	Starts int
	// MaxObjects is how many objects the cache of one app may hold, of all kinds together, and MaxCacheBytes how much
	// memory they may take up, by an estimate. An app that exceeds either limit ends with the reason OverBudget.
	// Defaults 100 000 and 256 MiB.
	MaxObjects, MaxCacheBytes int
}

func (l Limits) withDefaults() Limits {
	l.StartTimeout = orDefault(l.StartTimeout, 30*time.Second)
	l.SyncTimeout = orDefault(l.SyncTimeout, 10*time.Minute)
	l.StopTimeout = orDefault(l.StopTimeout, 10*time.Second)
	l.ReconcileTimeout = orDefault(l.ReconcileTimeout, 5*time.Minute)
	l.StaleAfter = orDefault(l.StaleAfter, 30*time.Second)
	l.StaleTolerance = orDefault(l.StaleTolerance, 2*time.Minute)
	l.Starts = orDefault(l.Starts, 64)
	l.MaxObjects = orDefault(l.MaxObjects, 100_000)
	l.MaxCacheBytes = orDefault(l.MaxCacheBytes, 256<<20)
	return l
}

// orDefault returns v, or otherwise if v is not positive.
func orDefault[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// Journal records which apps are being started, in a place that survives a crash of the hub. Damage of a module to
// the whole process cannot be contained; but the next process can read which apps were being started when the last
// process died, and start these with care (see state.CrashRecord).
//
// A journal prevents no start: an app whose Begin fails is started anyway.
type Journal interface {
	// Begin notes that the app of name is about to start. It returns when the note would survive a crash, or with an
	// error if the note was not written before ctx ended. Alone says that no other app is being started until End. The
	// journal logs its failures for operators; the registry logs the error of each app for debugging only.
	Begin(ctx context.Context, name ClusterName, alone bool) error
	// End notes that the app has proven itself, or has ended in good order. It does not block.
	End(name ClusterName)
}
