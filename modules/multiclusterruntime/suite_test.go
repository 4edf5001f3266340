// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mccontroller "sigs.k8s.io/multicluster-runtime/pkg/controller"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/multiclusterruntime"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(hubtest.Main(m))
}

// patience is the timeout of waits that should take a second or two.
const patience = 2 * time.Minute

// hub is a hub's manager, its registry, and the manager of multicluster-runtime in front of it.
type hub struct {
	mcmanager.Manager
	remotes *registry.Registry
	start   func() // starts the manager
}

func newHub(t testing.TB, o multiclusterruntime.Options, setUp func(h *hub) error) *hub {
	t.Helper()
	h := newStoppedHub(t, o, setUp)
	h.start()
	return h
}

func newStoppedHub(t testing.TB, o multiclusterruntime.Options, setUp func(h *hub) error) *hub {
	t.Helper()
	mgr := newManager(t)
	h := &hub{remotes: newRegistry(t, mgr)}
	var err error
	if h.Manager, err = multiclusterruntime.New(mgr, h.remotes, o); err != nil {
		t.Fatalf("New: %v", err)
	}
	testkit.Must(t, mgr.Add(h.remotes))
	testkit.Must(t, setUp(h))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	h.start = sync.OnceFunc(func() {
		go func() { ended <- mgr.Start(ctx) }()
	})
	t.Cleanup(func() {
		h.start() // This ends everything that was added to the manager.
		stop()
		testkit.NoError(t, <-ended, "hub ended with an error")
	})
	return h
}

func newManager(t testing.TB) ctrl.Manager {
	t.Helper()
	config := fleettest.Cluster(t, "hub").Config()
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: fleettest.Scheme(t), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: hubControllers(),
	})
	testkit.Must(t, err)
	return mgr
}

// syncTimeout is short, so that a controller that waits for a remote ends the hub within a test.
const syncTimeout = 2 * time.Second

func hubControllers() config.Controller {
	yes := true
	return config.Controller{SkipNameValidation: &yes, CacheSyncTimeout: syncTimeout}
}

func newRegistry(t testing.TB, mgr ctrl.Manager, modules ...registry.Module) *registry.Registry {
	t.Helper()
	r, err := registry.New(registry.Options{
		Hub: mgr.GetConfig(), HubMapper: mgr.GetRESTMapper(), Scheme: mgr.GetScheme(), Policy: policy(),
		AllowDuplicates: true, AllowHub: true, Modules: modules,
	})
	testkit.Must(t, err)
	return r
}

func policy() kubeconfig.Policy {
	return kubeconfig.Policy{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func configFor(t testing.TB, kubeconf []byte) state.Desired {
	t.Helper()
	c, err := kubeconfig.Parse(map[string][]byte{"kubeconfig": kubeconf}, kubeconfig.Options{}, policy())
	testkit.Must(t, err)
	return state.Desired{Endpoint: c.Endpoint, Credential: c.Credential}
}

// register registers the cluster of a kubeconfig as a remote, and does not wait for it.
func (h *hub) register(t testing.TB, name registry.ClusterName, kubeconf []byte) {
	t.Helper()
	testkit.Must(t, h.remotes.Ensure(name, configFor(t, kubeconf)))
}

// watching sets a hub up that records requests for the ConfigMaps of the test.
func watching(t testing.TB, r *record) func(*hub) error {
	t.Helper()
	return func(h *hub) error {
		return newController(h, "test").For(&corev1.ConfigMap{}).WithEventFilter(ofTest(t)).Complete(r)
	}
}

// newController returns a builder. The library ignores the manager's defaults that would let tests reuse a name.
func newController(h *hub, name string) *mcbuilder.Builder {
	return mcbuilder.ControllerManagedBy(h).Named(name).WithOptions(options())
}

func options() mccontroller.Options {
	yes := true
	return mccontroller.Options{SkipNameValidation: &yes}
}

// record is a reconciler that records its requests. It calls do, if it is set.
type record struct {
	do func(context.Context, mcreconcile.Request) error

	mu   sync.Mutex // protects seen
	seen map[mcreconcile.Request]int
}

func (r *record) Reconcile(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
	r.mu.Lock()
	if r.seen == nil {
		r.seen = map[mcreconcile.Request]int{}
	}
	r.seen[request]++
	r.mu.Unlock()
	if r.do != nil {
		return ctrl.Result{}, r.do(ctx, request)
	}
	return ctrl.Result{}, nil
}

func (r *record) count(request mcreconcile.Request) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[request]
}

// expect waits until a request has arrived more than this many times.
func (r *record) expect(t testing.TB, request mcreconcile.Request, moreThan int) {
	t.Helper()
	eventually(t, func() error {
		if got := r.count(request); got <= moreThan {
			return fmt.Errorf("request %s arrived %d times, want more than %d", request, got, moreThan)
		}
		return nil
	})
}

func in(name multicluster.ClusterName, key client.ObjectKey) mcreconcile.Request {
	return mcreconcile.Request{ClusterName: name, Request: ctrl.Request{NamespacedName: key}}
}

// ofTest drops the objects of other tests, which share the clusters.
func ofTest(t testing.TB) predicate.Predicate {
	t.Helper()
	name := t.Name()
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetAnnotations()["test"] == name })
}

// create writes a ConfigMap of the test.
func create(t testing.TB, c *fleet.Cluster) client.ObjectKey {
	t.Helper()
	one := newConfigMap()
	one.Annotations = map[string]string{"test": t.Name()}
	testkit.Must(t, fleettest.Client(t, c).Create(t.Context(), one))
	return client.ObjectKeyFromObject(one)
}

func newConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Namespace: metav1.NamespaceDefault}}
}

func eventually(t testing.TB, check func() error) {
	t.Helper()
	gomega.NewWithT(t).Eventually(check).WithTimeout(patience).WithPolling(10 * time.Millisecond).Should(gomega.Succeed())
}
