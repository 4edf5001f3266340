// SPDX-License-Identifier: Apache-2.0

package app

import (
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
)

// Options say how a hub runs. Config is required. The defaults suit a hub in a test; the program's flags have others.
type Options struct {
	// Config is the connection to the hub's API server.
	Config *rest.Config
	// Modules run in the hub and in its remotes' apps. Default: none.
	Modules []registry.Module
	// Log is the parent of every logger. Default: discards.
	Log logr.Logger
	// CredentialsNamespace is the one namespace of which the hub reads Secrets. Default: clusterfx-system.
	CredentialsNamespace string
	// Concurrency is how many Clusters are reconciled at once. Default: 50.
	Concurrency int
	// RemoveWithin is how long cleanup steps and the end of an app may take when a Cluster is deleted. Default: 25 s.
	RemoveWithin time.Duration
	// MetricsAddress is where metrics are served, as host:port. Default: nowhere.
	MetricsAddress string
	// HealthAddress is where /healthz and /readyz are served, as host:port. Default: nowhere.
	HealthAddress string
	// DebugAddress is where profiles are served, as host:port of loopback. Default: nowhere.
	DebugAddress string
	// TunnelAddress is where agents of remotes connect that the hub cannot dial, as host:port. Default: nowhere.
	TunnelAddress string
	// CrashFile receives what the process writes when a panic ends it, in a folder that outlives it: the next process
	// quarantines the app of that goroutine. Default: none.
	CrashFile string
	// Traces is where spans go. Default: nowhere.
	Traces trace.TracerProvider
	// NATS is the connection of modules with entities. Default: none.
	NATS natshub.Options
	// Registry has the operator's settings for remotes: Policy, Limits, Replica, AllowHub, AllowDuplicates,
	// Impersonate, AppsNamespace (default: CredentialsNamespace with -apps), ModuleConfigs, and where Metrics go. The
	// hub fills in the rest.
	Registry registry.Options

	// Alone is for a hub without replicas: it has no lease and writes whenever it runs, so that another hub beside it does harm.
	// Default: the hub is one of several replicas, which have leases in the credentials namespace. It needs Registry.Replica, a DNS
	// label: the name of the Pod.
	Alone bool
	// Active is how many replicas may run Clusters; the others stand by. Default: 0, all of them. Replicas should have the same.
	Active int
	// Labels of this replica. A Cluster with labels in spec.runner runs in a live replica with them. Default: none.
	Labels map[string]string
	// Shards is the number of parts of the Clusters, the same for all replicas and forever. Default: 32.
	Shards int
	// LeaseDuration is how long the lease of a replica is unchanged before others take its parts, RenewDeadline how
	// long a replica works without a renewal, RetryPeriod the time between renewals. Defaults: 10 s, 7 s, 1.5 s.
	// LeaveTimeout limits the time in which a replica that ends hands its parts over (25 s), and after ForgetAfter the lease of a
	// replica that has ended is removed (a minute).
	LeaseDuration, RenewDeadline, RetryPeriod, LeaveTimeout, ForgetAfter time.Duration

	// StuckAfter is how long a controller of the hub may make no progress before the hub is unhealthy. Default: see registry/liveness.
	StuckAfter time.Duration
	// Starting gets, each second, how many remotes a hub that has just begun still starts, and in the end 0. Default: no call.
	Starting func(remotes int)
}

func (o Options) process() process.Options { return process.Options(o) }
