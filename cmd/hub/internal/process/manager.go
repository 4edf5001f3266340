// SPDX-License-Identifier: Apache-2.0

package process

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/fx"
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
	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry/eventseries"
)

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, hubv1.AddToScheme)
	return scheme, builder.AddToScheme(scheme)
}

type managerOptions struct {
	ctrl.Options
	config *rest.Config
}

// newManager sends no request before it is started.
func (h *hub) newManager() (ctrl.Manager, error) {
	options := h.managerOptions()
	h.share.guard(&options)
	inner, err := ctrl.NewManager(options.config, options.Options)
	if err != nil {
		return nil, err
	}
	monitor := h.options.Registry.Monitor
	_ = h.site.AddHealthzCheck("progress", func(*http.Request) error { return monitor.Err() }) // It never fails.
	return &hubManager{Manager: inner, site: h.site}, inner.Add(h.site)
}

func (h *hub) managerOptions() managerOptions {
	skip, graceful := true, h.options.stopTimeout()
	shared, config := cluster.ManagerOptions(h.options.CredentialsNamespace), rest.CopyConfig(h.options.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &watchRetry{next: next, log: h.options.Log}
	})
	return managerOptions{config: config, Options: ctrl.Options{
		Scheme: h.scheme,
		Logger: h.options.Log,
		NewCache: func(config *rest.Config, options cache.Options) (cache.Cache, error) {
			inner, err := cache.New(config, options)
			return &hubCache{Cache: inner, life: h.work.life}, err
		},
		Cache:  shared.Cache,
		Client: shared.Client,

		// The process serves these, see hubManager.
		Metrics:                metricsserver.Options{BindAddress: serving.Nowhere},
		HealthProbeBindAddress: serving.Nowhere,
		PprofBindAddress:       serving.Nowhere,

		GracefulShutdownTimeout: &graceful,

		// Names are unique in a process and never given back, and a process can hold several hubs.
		Controller: ctrlconfig.Controller{SkipNameValidation: &skip},
	}}
}

type hubManager struct {
	ctrl.Manager
	site *site
}

func (m *hubManager) AddHealthzCheck(name string, check healthz.Checker) error {
	return m.site.AddHealthzCheck(name, check)
}

func (m *hubManager) AddReadyzCheck(name string, check healthz.Checker) error {
	return m.site.AddReadyzCheck(name, check)
}

func (m *hubManager) AddMetricsServerExtraHandler(path string, handler http.Handler) error {
	return m.site.AddMetricsServerExtraHandler(path, handler)
}

// hubValues have no names but the reader, which shares its type with the client.
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
	Traces     trace.TracerProvider
}

func newHubValues(mgr ctrl.Manager, o hubOptions) hubValues {
	traces := o.Traces
	if traces == nil {
		traces = noop.NewTracerProvider()
	}
	return hubValues{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Connection: mgr, Cache: mgr.GetCache(),
		Config: mgr.GetConfig(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		Events: eventseries.ByNote(mgr.GetEventRecorder("clusterfx"), mgr.GetScheme()), Metrics: o.Registry.Metrics, Traces: traces,
	}
}
