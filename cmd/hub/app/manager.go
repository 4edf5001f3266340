// SPDX-License-Identifier: Apache-2.0

package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

// stopTimeout is what the hub's runnables get to end, the registry with its apps among them. With
// stopReserve it is less than the 30 s after which Kubernetes kills a Pod.
const (
	stopTimeout = 25 * time.Second
	// stopReserve is what the hooks of modules get on top.
	stopReserve = 4 * time.Second
)

// newScheme returns what the hub and all apps know: Kubernetes' own kinds, and ours.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, hubv1.AddToScheme)
	return scheme, builder.AddToScheme(scheme)
}

// newManager returns the hub's manager. It contacts nobody before it is started.
func newManager(o Options, scheme *runtime.Scheme) (ctrl.Manager, error) {
	skip, graceful := true, stopTimeout
	mgr, err := ctrl.NewManager(o.Config, ctrl.Options{
		Scheme: scheme,
		Logger: o.Log,
		Cache: cache.Options{
			ByObject:         cluster.CacheOptions(o.CredentialsNamespace),
			DefaultTransform: cache.TransformStripManagedFields(),
		},
		// A Secret is read live, one at a time: no credential stays in memory.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},

		Metrics:                metricsserver.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress: o.HealthAddress,
		PprofBindAddress:       nowhere,

		LeaderElection:                o.Election.Enabled,
		LeaderElectionNamespace:       o.Election.Namespace,
		LeaderElectionID:              o.Election.ID,
		LeaseDuration:                 &o.Election.LeaseDuration,
		RenewDeadline:                 &o.Election.RenewDeadline,
		RetryPeriod:                   &o.Election.RetryPeriod,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &graceful,

		// Names of controllers are unique in a process and never given back; a process can hold
		// more than one hub, one after the other or side by side.
		Controller: ctrlconfig.Controller{SkipNameValidation: &skip},
	})
	if err != nil {
		return nil, err
	}
	ready := &readiness{}
	if err := mgr.Add(ready); err != nil {
		return nil, err
	}
	if err := mgr.AddReadyzCheck("caches", ready.check); err != nil {
		return nil, err
	}
	return mgr, mgr.AddHealthzCheck("ping", healthz.Ping)
}

// hubValues are what the manager gives to the hub's App. They are the hub's, so none has a name
// but the reader, which shares its type with the client.
type hubValues struct {
	fx.Out

	Client     client.Client
	Reader     client.Reader `name:"api-reader"`
	Connection crcluster.Cluster
	Cache      cache.Cache
	Config     *rest.Config
	Scheme     *runtime.Scheme
	Mapper     meta.RESTMapper
	Events     events.EventRecorder
	Metrics    prometheus.Registerer
}

func newHubValues(mgr ctrl.Manager, metrics prometheus.Registerer) hubValues {
	return hubValues{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Connection: mgr, Cache: mgr.GetCache(),
		Config: mgr.GetConfig(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		Events: mgr.GetEventRecorder("clusterfx"), Metrics: metrics,
	}
}
