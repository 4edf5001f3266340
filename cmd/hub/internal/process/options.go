// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/features"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Options are those of app.Options, and those of the program.
type Options struct {
	Config               *rest.Config
	Modules              []registry.Module
	Log                  logr.Logger
	CredentialsNamespace string
	Concurrency          int
	RemoveWithin         time.Duration
	MetricsAddress       string
	HealthAddress        string
	DebugAddress         string
	CrashFile            string
	Traces               trace.TracerProvider
	Election             Election
	Sharing              Sharing
	Registry             registry.Options
	NATS                 natshub.Options
	StuckAfter           time.Duration // StuckAfter is liveness.Options.After.
	// Starting gets, each second, how many remotes a hub with a new lease still starts, and in the end 0. Default: no call.
	Starting func(remotes int)
	identity string // identity is the holder in this hub's lease.
	// leader elects the replica for what runs once; nil if one has all remotes.
	leader registry.Turn
}

// Election is app.Election.
type Election struct {
	Enabled                                   bool
	Namespace, ID                             string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Sharing is app.Sharing.
type Sharing struct {
	Enabled      bool
	Labels       map[string]string
	Shards       int
	Timing       shards.Timing
	LeaveTimeout time.Duration
	ForgetAfter  time.Duration
}

// The defaults of Options.
const (
	DefaultConcurrency   = 50
	DefaultRemoveWithin  = 25 * time.Second
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
	defaultStopTimeout   = 10 * time.Second // of an app; see registry.Limits
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Config == nil:
		return o, errors.New("a hub needs the Config of its API server")
	case o.Sharing.Enabled && o.Election.Enabled:
		return o, errors.New("a hub that shares its Clusters with others has no leader election; disable one of them")
	case o.Sharing.Enabled && o.Registry.Replica == "":
		return o, errors.New("a hub that shares its Clusters with others needs a name of its own, Registry.Replica; use the name of the Pod")
	}
	for _, one := range []features.Feature{features.ClientsAllowCBOR, features.ClientsPreferCBOR} {
		if features.FeatureGates().Enabled(one) { // No client could write custom resources, nor read from a remote that serves CBOR.
			return o, fmt.Errorf("a hub does not support CBOR: unset the environment variable KUBE_FEATURE_%s", one)
		}
	}
	o.Config = rest.CopyConfig(o.Config)
	o.CredentialsNamespace = cmp.Or(o.CredentialsNamespace, hubv1.DefaultNamespace)
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.MetricsAddress = cmp.Or(o.MetricsAddress, serving.Nowhere)
	o.HealthAddress = cmp.Or(o.HealthAddress, serving.Nowhere)
	o.DebugAddress = cmp.Or(o.DebugAddress, serving.Nowhere)
	o.Registry.Traces = o.Traces
	if o.Registry.Holds.Name == "" {
		o.Registry.Holds = client.ObjectKey{Namespace: o.CredentialsNamespace, Name: cluster.HoldsName}
	}
	o.Registry.CredentialsNamespace = o.CredentialsNamespace
	o.Registry.AppsNamespace = cmp.Or(o.Registry.AppsNamespace, roles.AppsNamespace(o.CredentialsNamespace))
	o.Election.Namespace = cmp.Or(o.Election.Namespace, o.CredentialsNamespace)
	o.Election.ID = cmp.Or(o.Election.ID, roles.Lease)
	o.Election.LeaseDuration = cmp.Or(o.Election.LeaseDuration, DefaultLeaseDuration)
	o.Election.RenewDeadline = cmp.Or(o.Election.RenewDeadline, DefaultRenewDeadline)
	o.Election.RetryPeriod = cmp.Or(o.Election.RetryPeriod, DefaultRetryPeriod)
	o.Registry.Replica = cmp.Or(o.Registry.Replica, "hub")
	o.Registry.Limits.StopTimeout = cmp.Or(o.Registry.Limits.StopTimeout, defaultStopTimeout)
	o.identity = o.Registry.Replica + "_" + string(uuid.NewUUID())
	if o.Registry.Metrics == nil {
		o.Registry.Metrics = prometheus.NewRegistry()
	}
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	if o.Registry.Secrets == nil {
		o.Registry.Secrets = &kubeconfig.Redactor{}
	}
	o.Registry.Secrets.Set("", kubeconfig.CredentialOf(o.Config)) // The registry does so, too, but later.
	o.Log = registry.RedactingLogger(o.Log, o.Registry.Secrets)
	if o.Config.QPS == 0 && o.Config.RateLimiter == nil {
		o.Config.QPS = -1 // The default of client-go is 5, with which 20 remotes would take 7 s to start.
	}
	if o.Config.UserAgent == "" {
		o.Config.UserAgent = "clusterfx/" + o.Registry.Replica
	}
	return o, nil
}
