// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/registration"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(4)
	os.Exit(fleettest.Main(m, fleettest.NoLeaks(
		// A metadata watch that is stopped while it sends an event that has no receiver: one for each hub that ends
		// (controller-runtime, newGVKFixupWatcher).
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))))
}

const (
	// patience is the timeout for results that should take a second or two.
	patience = 2 * time.Minute
	// testLabel is on every Cluster of a test's hub, whose cache holds no other Clusters, so that the tests can share
	// an API server.
	testLabel = "test"
)

// hub is a hub of one test: like a separate process, on a shared API server.
type hub struct {
	client.WithWatch // an administrator's, without a cache
	t                testing.TB
	options          hubOptions
	cluster          *fleet.Cluster
	config           *rest.Config // of a user with the permissions of a hub only
	namespace        string       // of the credentials, and the value of testLabel
	registry         *registry.Registry
	metrics          *prometheus.Registry
	stop             func() // ends the process
}

type hubOptions struct {
	settings     cluster.Settings
	registration registration.Settings
	registry     registry.Options
	modules      []registry.Module
	share        cluster.Share
	role         string // of the hub's API server, if it is not that of most tests
	// wrap wraps the transport to the hub's API server, and remotes wraps the registry.
	wrap    func(http.RoundTripper) http.RoundTripper
	remotes func(cluster.Remotes) cluster.Remotes
}

// newHub starts a hub, and stops it when the test ends.
func newHub(t testing.TB, change func(*hubOptions)) *hub {
	t.Helper()
	h := newIdleHub(t, change)
	h.start()
	t.Cleanup(func() { h.stop() })
	return h
}

// newIdleHub returns a hub that is not started.
func newIdleHub(t testing.TB, change func(*hubOptions)) *hub {
	t.Helper()
	h := &hub{t: t, options: defaultOptions()}
	if change != nil {
		change(&h.options)
	}
	h.cluster = fleettest.Cluster(t, cmp.Or(h.options.role, "hub"))
	h.WithWatch = clientFor(t, h.cluster)
	var err error
	h.config, err = prepare(t, h.cluster)
	h.must(err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hub-"}}
	h.must(h.Create(t.Context(), namespace))
	h.namespace = namespace.Name
	return h
}

func defaultOptions() hubOptions {
	policy := kubeconfig.Policy{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	return hubOptions{
		settings: cluster.Settings{Policy: policy, HubID: "a hub"},
		registry: registry.Options{Policy: policy, AllowDuplicates: true},
	}
}

// start starts a new process of the hub.
func (h *hub) start() {
	h.t.Helper()
	h.run(h.config)
}

// run starts a process that uses a configuration to connect to its API server.
func (h *hub) run(config *rest.Config) {
	h.t.Helper()
	selector := labels.SelectorFromSet(labels.Set{testLabel: h.namespace})
	credentials := cmp.Or(h.options.registration.Namespace, h.namespace)
	options := cluster.ManagerOptions(credentials)
	options.Cache.ByObject[&hubv1.Cluster{}] = cache.ByObject{Label: selector}
	options.Scheme, options.Logger, options.Metrics.BindAddress = scheme(h.t), logr.Discard(), "0"
	config = rest.CopyConfig(config)
	if h.options.wrap != nil {
		config.Wrap(h.options.wrap)
	}
	mgr, err := ctrl.NewManager(config, options)
	h.must(err)
	settings, registration := h.options.settings, h.options.registration
	settings.Namespace, registration.Namespace = credentials, credentials
	h.metrics = prometheus.NewRegistry()
	parts := []fx.Option{
		fx.NopLogger,
		fx.Provide(func() prometheus.Registerer { return h.metrics }),
		fx.Provide(func() ctrl.Manager { return mgr }, logr.Discard),
		fx.Supply(settings, registration, h.options.registry),
		registry.FX, h.module(),
		fx.Populate(&h.registry),
	}
	if h.options.share != nil {
		parts = append(parts, fx.Provide(func() cluster.Share { return h.options.share }))
	}
	for _, m := range h.options.modules {
		parts = append(parts, m.Option())
	}
	h.must(fx.New(parts...).Err())
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := mgr.Start(ctx); err != nil {
			h.t.Errorf("the hub ended: %v", err)
		}
	}()
	h.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
}

// module returns the module under test, with a replaced registry if the test has one.
func (h *hub) module() fx.Option {
	if h.options.remotes == nil {
		return fx.Options(cluster.Module, registration.Module)
	}
	return fx.Invoke(func(p cluster.Params) error {
		return cluster.SetupWith(p, h.options.remotes(p.Registry))
	})
}

func (h *hub) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// name returns a name that is unique among all tests.
func (h *hub) name(suffix string) string { return h.namespace + "-" + suffix }

// putSecret creates a Secret or replaces its data.
func (h *hub) putSecret(name string, data map[string][]byte) *corev1.Secret {
	h.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: h.namespace}, Data: data}
	err := h.Create(h.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = h.Update(h.t.Context(), secret)
	}
	h.must(err)
	return secret
}

func (h *hub) putKubeconfig(name string, data []byte) *corev1.Secret {
	h.t.Helper()
	return h.putSecret(name, map[string][]byte{"kubeconfig": data})
}

// deleteSecret deletes a Secret.
func (h *hub) deleteSecret(name string) {
	h.t.Helper()
	h.must(h.Delete(h.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: h.namespace}}))
}

// newCluster creates a Cluster that names the Secret of the same name and has a short probe period.
func (h *hub) newCluster(name string, change func(*hubv1.Cluster)) {
	h.t.Helper()
	h.must(h.create(name, change))
}

// create is like newCluster, and returns the error.
func (h *hub) create(name string, change func(*hubv1.Cluster)) error {
	c := &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{testLabel: h.namespace}},
		Spec: hubv1.ClusterSpec{
			KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name},
			Probe:               hubv1.ProbeSpec{PeriodSeconds: 1, TimeoutSeconds: 1},
		},
	}
	if change != nil {
		change(c)
	}
	return h.Create(h.t.Context(), c)
}

// get returns a Cluster.
func (h *hub) get(name string) *hubv1.Cluster {
	h.t.Helper()
	c := &hubv1.Cluster{}
	h.must(h.Get(h.t.Context(), client.ObjectKey{Name: name}, c))
	return c
}

// change updates a Cluster as a user would.
func (h *hub) change(name string, f func(*hubv1.Cluster)) {
	h.t.Helper()
	h.eventually(func() error {
		c := h.get(name)
		f(c)
		return h.Update(h.t.Context(), c)
	})
}

// expect waits until a condition of a Cluster has a status and a reason, and returns the Cluster.
func (h *hub) expect(name, kind string, status metav1.ConditionStatus, reason string) *hubv1.Cluster {
	h.t.Helper()
	var c *hubv1.Cluster
	h.eventually(func() error {
		c = h.get(name)
		found := meta.FindStatusCondition(c.Status.Conditions, kind)
		if found == nil || found.Status != status || found.Reason != reason || c.Status.ObservedGeneration != c.Generation {
			return fmt.Errorf("%s: want %s=%s/%s, got %s", name, kind, status, reason, summary(c))
		}
		return nil
	})
	checkInvariants(h.t, c)
	return c
}

func (h *hub) expectReady(name string) *hubv1.Cluster {
	h.t.Helper()
	return h.expect(name, hubv1.ConditionReady, metav1.ConditionTrue, hubv1.ReasonReady)
}

// expectGone waits until a Cluster is gone, and checks that the registry does not know it either.
func (h *hub) expectGone(name string) {
	h.t.Helper()
	h.eventually(func() error {
		var c hubv1.Cluster
		err := h.Get(h.t.Context(), client.ObjectKey{Name: name}, &c)
		if err == nil {
			return fmt.Errorf("%s still exists: finalizers %v, %s", name, c.Finalizers, summary(&c))
		}
		return client.IgnoreNotFound(err)
	})
	h.expectStopped(name)
}

// expectStopped checks that the registry does not know a remote.
func (h *hub) expectStopped(name string) {
	h.t.Helper()
	if info, ok := h.registry.Status(registry.ClusterName(name)); ok {
		h.t.Errorf("the registry still knows %s: %+v", name, info)
	}
}

func (h *hub) eventually(f func() error) {
	h.t.Helper()
	gomega.NewWithT(h.t).Eventually(f).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(gomega.Succeed())
}

// consistently checks that f returns nil for a while.
func (h *hub) consistently(d time.Duration, f func() error) {
	h.t.Helper()
	gomega.NewWithT(h.t).Consistently(f).WithTimeout(d).WithPolling(50 * time.Millisecond).Should(gomega.Succeed())
}

// info returns the status of a remote in the registry.
func (h *hub) info(name string) registry.Status {
	h.t.Helper()
	info, ok := h.registry.Status(registry.ClusterName(name))
	if !ok {
		h.t.Fatalf("the registry does not know %s", name)
	}
	return info
}

func summary(c *hubv1.Cluster) string {
	text := fmt.Sprintf("generation %d, observed %d", c.Generation, c.Status.ObservedGeneration)
	for _, one := range c.Status.Conditions {
		text += fmt.Sprintf("\n  %s=%s/%s: %s", one.Type, one.Status, one.Reason, one.Message)
	}
	return text
}

// prepared are the configurations of a user with the permissions of a hub only, by the API server that is prepared for it.
var prepared struct {
	mu      sync.Mutex
	configs map[*fleet.Cluster]*rest.Config
}

// prepare prepares a hub's API server once, as an administrator does. The tests share it.
func prepare(t testing.TB, c *fleet.Cluster) (*rest.Config, error) {
	t.Helper()
	prepared.mu.Lock()
	defer prepared.mu.Unlock()
	if known := prepared.configs[c]; known != nil {
		return known, nil
	}
	fleettest.InstallCRDs(t, c.Config())
	user, err := c.MintCertificate(context.WithoutCancel(t.Context()), fleet.User{Name: "hub", Rules: rights()})
	if err != nil {
		return nil, err
	}
	if prepared.configs == nil {
		prepared.configs = map[*fleet.Cluster]*rest.Config{}
	}
	prepared.configs[c] = user.Config()
	return user.Config(), nil
}

// rights returns the documented permissions of the package, and no others.
func rights() []rbacv1.PolicyRule {
	return slices.Concat(cluster.Rules(), cluster.CredentialsRules(), cluster.EventRules())
}

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, hubv1.AddToScheme} {
		testkit.Must(t, add(s))
	}
	return s
}

func clientFor(t testing.TB, c *fleet.Cluster) client.WithWatch {
	t.Helper()
	config := c.Config()
	httpClient, err := rest.HTTPClientFor(config)
	testkit.Must(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	direct, err := client.NewWithWatch(config, client.Options{HTTPClient: httpClient, Scheme: scheme(t)})
	testkit.Must(t, err)
	return direct
}

// expectRunning waits until the app of a Cluster runs, regardless of the status.
func (h *hub) expectRunning(name string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	h.eventually(func() error {
		_, ok := h.registry.Status(registry.ClusterName(name))
		if !ok {
			return fmt.Errorf("%s is not registered", name)
		}
		return nil
	})
	h.must(h.registry.WaitReady(ctx, registry.ClusterName(name)))
}
