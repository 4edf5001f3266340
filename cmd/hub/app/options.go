// SPDX-License-Identifier: Apache-2.0

package app

import (
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
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
	// CrashFile receives what the process writes when a panic ends it, in a folder that outlives it: the next process
	// quarantines the app of that goroutine. Default: none.
	CrashFile string
	// Traces is where spans go. Default: nowhere.
	Traces trace.TracerProvider
	// Election lets several hubs stand by for each other. Default: a hub that is alone.
	Election Election
	// Sharing lets several hubs share the Clusters. Default: a hub that has all of them.
	Sharing Sharing
	// NATS is the connection of modules with entities. Default: none.
	NATS natshub.Options
	// Registry has the operator's settings for remotes: Policy, Limits, Replica, AllowHub, AllowDuplicates,
	// Impersonate, AppsNamespace (default: CredentialsNamespace with -apps), ModuleConfigs, and where Metrics go. The
	// hub fills in the rest.
	Registry registry.Options

	stuckAfter time.Duration
}

// Election configures leader election between hubs.
type Election struct {
	// Enabled makes the hub wait for the lease before it works. Default: false.
	Enabled bool
	// Namespace and ID name the Lease. Defaults: the credentials namespace, and clusterfx-hub.
	Namespace, ID string
	// LeaseDuration is how long another hub waits after the last sign of life, RenewDeadline how long this one works
	// without having given one, RetryPeriod the time between tries. Defaults: 15 s, 10 s, 2 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Sharing configures a hub that runs a part of the Clusters beside other replicas. It excludes Election.Enabled, but
// waits for hubs with Election, whose Namespace, ID and LeaseDuration Election must have. Registry.Replica is required:
// a DNS label that no other replica has.
type Sharing struct {
	// Enabled makes the hub share the Clusters. Default: false.
	Enabled bool
	// Labels of this replica. A Cluster with labels in spec.runner runs in a live replica with them. Default: none.
	Labels map[string]string
	// Shards is the number of parts of the Clusters, the same for all replicas and forever. Default: 128.
	Shards int
	// LeaseDuration is how long the lease of a replica is unchanged before others take its parts, RenewDeadline how
	// long a replica works without a renewal, RetryPeriod the time between renewals. Defaults: 10 s, 7 s, 1.5 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// LeaveTimeout limits the time in which a replica that ends hands its parts over. Default: 25 s.
	LeaveTimeout time.Duration

	forgetAfter time.Duration
}

func (o Options) process() process.Options {
	return process.Options{
		Config: o.Config, Modules: o.Modules, Log: o.Log, CredentialsNamespace: o.CredentialsNamespace,
		Concurrency: o.Concurrency, RemoveWithin: o.RemoveWithin,
		MetricsAddress: o.MetricsAddress, HealthAddress: o.HealthAddress, DebugAddress: o.DebugAddress,
		CrashFile: o.CrashFile, Traces: o.Traces, Election: process.Election(o.Election), Registry: o.Registry, NATS: o.NATS, StuckAfter: o.stuckAfter,
		Sharing: process.Sharing{
			Enabled: o.Sharing.Enabled, Labels: o.Sharing.Labels, Shards: o.Sharing.Shards,
			LeaveTimeout: o.Sharing.LeaveTimeout,
			ForgetAfter:  o.Sharing.forgetAfter,
			Timing:       shards.Timing{Duration: o.Sharing.LeaseDuration, Deadline: o.Sharing.RenewDeadline, Retry: o.Sharing.RetryPeriod},
		},
	}
}
