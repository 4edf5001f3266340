// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
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
	"github.com/clusterfx/clusterfx/internal/testkit"
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
		{"floor", prepareFloor}, {"registry-watch", prepareWatch}, {"our-provider", prepareProvider}, {"kubeconfig-provider", prepareKubeconfigs},
	}
}

// prepareFloor returns a function that starts what client-go has, and nothing else: for each remote a client, an informer, a work
// queue, and a worker that copies each object. It uses protobuf, as the registry does.
func prepareFloor(b *testing.B, all []benchRemote, note noting) func() func() {
	b.Helper()
	return func() func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
		var running sync.WaitGroup
		for _, one := range all {
			config, err := clientcmd.RESTConfigFromKubeConfig(one.kubeconfig)
			testkit.Must(b, err)
			config.ContentType, config.QPS = runtime.ContentTypeProtobuf, -1
			config.Dial = (&net.Dialer{}).DialContext // client-go shares the connections of configurations that are equal otherwise.
			set, err := kubernetes.NewForConfig(config)
			testkit.Must(b, err)
			running.Go(func() { followPlainly(ctx, set, one.name, note) })
		}
		return func() {
			cancel()
			running.Wait()
		}
	}
}

func followPlainly(ctx context.Context, set kubernetes.Interface, remote string, note noting) {
	factory := informers.NewSharedInformerFactoryWithOptions(set, 0, informers.WithNamespace(remote))
	informer := factory.Core().V1().ConfigMaps().Informer()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[client.ObjectKey]())
	add := func(obj any) {
		if one, ok := obj.(client.Object); ok {
			queue.Add(client.ObjectKeyFromObject(one))
		}
	}
	_, _ = informer.AddEventHandler(clientcache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) },
	})
	defer context.AfterFunc(ctx, queue.ShutDown)()
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	for {
		key, ended := queue.Get()
		if ended {
			return
		}
		if obj, ok, _ := informer.GetStore().GetByKey(key.String()); ok {
			if one, ok := obj.(*corev1.ConfigMap); ok {
				_ = one.DeepCopy()
				note(remote, key)
			}
		}
		queue.Forget(key)
		queue.Done(key)
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
	testkit.Must(b, err)
	return prepareRegistry(b, mgr, r, all)
}

func prepareProvider(b *testing.B, all []benchRemote, note noting) func() func() {
	b.Helper()
	mgr := newManager(b)
	r := newRegistry(b, mgr)
	m, err := multiclusterruntime.New(mgr, r, multiclusterruntime.Options{})
	testkit.Must(b, err)
	addController(b, m, note)
	return prepareRegistry(b, mgr, r, all)
}

func addController(b *testing.B, m mcmanager.Manager, note noting) {
	b.Helper()
	err := newController(&hub{Manager: m}, "test").For(&corev1.ConfigMap{}).Complete(mcreconcile.Func(
		func(_ context.Context, r mcreconcile.Request) (ctrl.Result, error) {
			note(string(r.ClusterName), r.NamespacedName)
			return ctrl.Result{}, nil
		}))
	testkit.Must(b, err)
}

// prepareRegistry returns a function that starts a hub with all remotes.
func prepareRegistry(b *testing.B, mgr ctrl.Manager, r *registry.Registry, all []benchRemote) func() func() {
	b.Helper()
	testkit.Must(b, mgr.Add(r))
	return func() func() {
		stop := startManager(b, mgr.Start)
		for _, one := range all {
			config := configFor(b, one.kubeconfig)
			config.Namespaces = []string{one.name}
			testkit.Must(b, r.Ensure(registry.ClusterName(one.name), config))
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
		testkit.NoError(b, <-ended, "manager ended with an error")
	}
}

// prepareKubeconfigs returns a function that starts the library's own provider. The Secrets that it needs, one for each
// remote, exist before.
func prepareKubeconfigs(b *testing.B, all []benchRemote, note noting) func() func() {
	b.Helper()
	hubConfig := fleettest.Cluster(b, "hub").Config()
	direct := fleettest.Client(b, fleettest.Cluster(b, "hub"))
	namespaceOf := map[string]string{}
	for _, one := range all {
		config, err := clientcmd.RESTConfigFromKubeConfig(one.kubeconfig)
		testkit.Must(b, err)
		namespaceOf[config.Host] = one.name
		testkit.Must(b, direct.Create(b.Context(), secretFor(one)))
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
	testkit.Must(b, err)
	testkit.Must(b, provider.SetupWithManager(b.Context(), m))
	addController(b, m, note)
	return func() func() {
		stop := startManager(b, m.Start)
		return func() {
			stop()
			for _, one := range all {
				testkit.NoError(b, direct.Delete(context.WithoutCancel(b.Context()), secretFor(one)))
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
