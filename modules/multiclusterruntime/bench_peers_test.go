// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
	mckubeconfig "sigs.k8s.io/multicluster-runtime/providers/kubeconfig"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules/multiclusterruntime"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// noting is called for each call of Reconcile.
type noting func(cluster string, key client.ObjectKey)

// contestant is a way to run a controller on the hub that watches ConfigMaps of remotes.
type contestant struct {
	name string
	// prepare returns a function that starts to engage the remotes, which returns a function that stops it.
	prepare func(b *testing.B, all []benchRemote, note noting) (begin func() (stop func()))
}

func contestants() []contestant {
	return []contestant{
		{"registry-watch", prepareWatch}, {"our-provider", prepareProvider}, {"kubeconfig-provider", prepareKubeconfigs},
	}
}

func prepareWatch(b *testing.B, all []benchRemote, note noting) func() func() {
	b.Helper()
	mgr := newManager(b)
	r := newRegistry(b, mgr)
	err := watch.ControllerManagedBy(mgr, r).Named("test").
		WatchesRemote(&corev1.ConfigMap{}, watch.Options[client.Object]{}).
		Complete(reconcile.TypedFunc[watch.Request](func(_ context.Context, r watch.Request) (ctrl.Result, error) {
			note(string(r.Cluster), r.NamespacedName)
			return ctrl.Result{}, nil
		}))
	if err != nil {
		b.Fatal(err)
	}
	return prepareRegistry(b, mgr, r, all)
}

func prepareProvider(b *testing.B, all []benchRemote, note noting) func() func() {
	b.Helper()
	mgr := newManager(b)
	r := newRegistry(b, mgr)
	m, err := multiclusterruntime.New(mgr, r, multiclusterruntime.Options{})
	if err != nil {
		b.Fatal(err)
	}
	addController(b, m, note)
	return prepareRegistry(b, mgr, r, all)
}

// addController adds a controller of multicluster-runtime.
func addController(b *testing.B, m mcmanager.Manager, note noting) {
	b.Helper()
	err := newController(&hub{Manager: m}, "test").For(&corev1.ConfigMap{}).Complete(mcreconcile.Func(
		func(_ context.Context, r mcreconcile.Request) (ctrl.Result, error) {
			note(string(r.ClusterName), r.NamespacedName)
			return ctrl.Result{}, nil
		}))
	if err != nil {
		b.Fatal(err)
	}
}

// prepareRegistry returns a function that starts a hub with all remotes.
func prepareRegistry(b *testing.B, mgr ctrl.Manager, r *registry.Registry, all []benchRemote) func() func() {
	b.Helper()
	if err := mgr.Add(r); err != nil {
		b.Fatal(err)
	}
	return func() func() {
		stop := startManager(b, mgr.Start)
		for _, one := range all {
			config := configFor(b, one.kubeconfig)
			config.Namespaces = []string{one.name}
			if err := r.Ensure(registry.ClusterName(one.name), config); err != nil {
				b.Fatal(err)
			}
		}
		return stop
	}
}

func startManager(b *testing.B, start func(context.Context) error) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("manager ended with an error: %v", err)
		}
	}
}

// prepareKubeconfigs returns a function that starts the library's own provider. The Secrets that it needs, one for each
// remote, exist before.
func prepareKubeconfigs(b *testing.B, all []benchRemote, note noting) func() func() {
	b.Helper()
	hubConfig := fleettest.Cluster(b, "hub").Config()
	direct := clientFor(b, fleettest.Cluster(b, "hub"))
	namespaceOf := map[string]string{}
	for _, one := range all {
		config, err := clientcmd.RESTConfigFromKubeConfig(one.kubeconfig)
		if err != nil {
			b.Fatal(err)
		}
		namespaceOf[config.Host] = one.name
		if err := direct.Create(b.Context(), secretFor(one)); err != nil {
			b.Fatal(err)
		}
	}
	provider := mckubeconfig.New(mckubeconfig.Options{
		Namespace: metav1.NamespaceDefault,
		ClusterOptions: []cluster.Option{func(o *cluster.Options) {
			o.NewCache = func(config *rest.Config, o cache.Options) (cache.Cache, error) {
				o.DefaultNamespaces = map[string]cache.Config{namespaceOf[config.Host]: {}}
				return cache.New(config, o)
			}
		}},
	})
	yes := true
	m, err := mcmanager.New(hubConfig, provider, ctrl.Options{
		Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &yes},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := provider.SetupWithManager(b.Context(), m); err != nil {
		b.Fatal(err)
	}
	addController(b, m, note)
	return func() func() {
		stop := startManager(b, m.Start)
		return func() {
			stop()
			for _, one := range all {
				if err := direct.Delete(context.WithoutCancel(b.Context()), secretFor(one)); err != nil {
					b.Error(err)
				}
			}
		}
	}
}

func secretFor(one benchRemote) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: one.name,
			Labels: map[string]string{mckubeconfig.DefaultKubeconfigSecretLabel: "true"},
		},
		Data: map[string][]byte{mckubeconfig.DefaultKubeconfigSecretKey: one.kubeconfig},
	}
}
