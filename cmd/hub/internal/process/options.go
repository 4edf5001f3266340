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
	"k8s.io/client-go/features"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Options are those of app.Options, in its order.
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
	TunnelAddress        string
	CrashFile            string
	Traces               trace.TracerProvider
	NATS                 natshub.Options
	Registry             registry.Options

	Alone                                                                bool
	Active                                                               int
	Labels                                                               map[string]string
	Shards                                                               int
	LeaseDuration, RenewDeadline, RetryPeriod, LeaveTimeout, ForgetAfter time.Duration

	StuckAfter time.Duration
	Starting   func(remotes int)
}

// hubOptions are the options of a hub that runs.
type hubOptions struct {
	Options
	once, withRemotes registry.Turn // nil for a hub that is alone
}

// The defaults of Options.
const (
	DefaultConcurrency  = 50
	DefaultRemoveWithin = 25 * time.Second
	defaultStopTimeout  = 10 * time.Second // of an app; see registry.Limits
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Config == nil:
		return o, errors.New("a hub needs the Config of its API server")
	case !o.Alone && o.Registry.Replica == "":
		return o, errors.New("a hub that is not alone needs a name, Registry.Replica; use the name of the Pod")
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
	o.TunnelAddress = cmp.Or(o.TunnelAddress, serving.Nowhere)
	o.Registry.Traces = o.Traces
	o.Registry.Holds = cmp.Or(o.Registry.Holds, client.ObjectKey{Namespace: o.CredentialsNamespace, Name: cluster.HoldsName})
	o.Registry.CredentialsNamespace = o.CredentialsNamespace
	o.Registry.AppsNamespace = cmp.Or(o.Registry.AppsNamespace, roles.AppsNamespace(o.CredentialsNamespace))
	o.Registry.Replica = cmp.Or(o.Registry.Replica, "hub")
	o.Registry.Limits.StopTimeout = cmp.Or(o.Registry.Limits.StopTimeout, defaultStopTimeout)
	if o.Registry.Metrics == nil {
		o.Registry.Metrics = prometheus.NewRegistry()
	}
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	o.Registry.Secrets = cmp.Or(o.Registry.Secrets, &kubeconfig.Redactor{})
	o.Registry.Secrets.Set("", kubeconfig.CredentialOf(o.Config)) // The registry does so, too, but later.
	o.Log = registry.RedactingLogger(o.Log, o.Registry.Secrets)
	if o.Config.QPS == 0 && o.Config.RateLimiter == nil {
		o.Config.QPS = -1 // The default of client-go is 5, with which 20 remotes would take 7 s to start.
	}
	o.Config.UserAgent = cmp.Or(o.Config.UserAgent, "clusterfx/"+o.Registry.Replica)
	return o, nil
}
