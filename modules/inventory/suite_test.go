// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"context"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules/inventory"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

// patience is how long a test waits for what should come within a second or two.
const patience = 30 * time.Second

// site is a hub and a remote that runs the module.
type site struct {
	t           testing.TB
	hub, remote client.WithWatch
	name        string // of the Cluster
	registry    *registry.Registry

	mu      sync.Mutex // protects written
	written []writing
}

// writing is an inventory, and when it was first seen on the hub.
type writing struct {
	inventory string
	at        time.Time
}

// newSite makes a cluster of this name known to the hub. No other test may use it: its Nodes are
// counted.
func newSite(t testing.TB, name string) *site {
	t.Helper()
	hub, remote := fleettest.Cluster(t, "hub"), fleettest.Cluster(t, name)
	s := &site{t: t, name: name, hub: clientFor(t, hub), remote: clientFor(t, remote), registry: newRegistry(t, hub)}
	s.must(installCRD(hub))
	s.must(s.hub.Create(t.Context(), &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name}},
	}))
	s.record()
	return s
}

// start runs the module.
func (s *site) start() {
	s.t.Helper()
	data := map[string][]byte{"kubeconfig": fleettest.Cluster(s.t, s.name).Kubeconfig()}
	connection, err := kubeconfig.Parse(data, kubeconfig.Options{}, policy())
	s.must(err)
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	s.must(s.registry.Spawn(ctx, registry.ClusterName(s.name), registry.Config{
		Endpoint: connection.Endpoint, Credential: connection.Credential,
	}))
}

func newRegistry(t testing.TB, hub *fleet.Cluster) *registry.Registry {
	t.Helper()
	mapper, err := apiutil.NewDynamicRESTMapper(hub.Config(), httpClientFor(t, hub))
	if err != nil {
		t.Fatal(err)
	}
	r, err := registry.New(registry.Options{
		Hub: hub.Config(), HubMapper: mapper, Scheme: scheme(t), Policy: policy(), AllowDuplicates: true,
		Modules: []registry.Module{inventory.Module},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// record notes every inventory that the Cluster has, from now on.
func (s *site) record() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	events, err := s.hub.Watch(ctx, &hubv1.ClusterList{}, client.MatchingFields{"metadata.name": s.name})
	s.must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			if c, ok := event.Object.(*hubv1.Cluster); ok {
				s.note(text(c.Status.Inventory))
			}
		}
	}()
	s.t.Cleanup(func() {
		cancel()
		<-done
	})
}

func (s *site) note(inventory string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.written); n == 0 || s.written[n-1].inventory != inventory {
		s.written = append(s.written, writing{inventory, time.Now()})
	}
}

// history returns the inventories noted so far.
func (s *site) history() []writing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.written)
}

// policy allows what a test needs: its clusters listen on loopback.
func policy() kubeconfig.Policy {
	return kubeconfig.Policy{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// addNode adds a Node with 2 CPUs and 4 GiB.
func (s *site) addNode(name string, ready corev1.ConditionStatus) {
	s.t.Helper()
	s.must(s.remote.Create(s.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	s.change(name, func(n *corev1.Node) {
		n.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	})
}

func (s *site) setReady(name string, ready corev1.ConditionStatus) {
	s.t.Helper()
	s.change(name, func(n *corev1.Node) { n.Status.Conditions[0].Status = ready })
}

// change changes the status of a Node as a kubelet would.
func (s *site) change(name string, f func(*corev1.Node)) {
	s.t.Helper()
	s.eventually(func() error {
		var node corev1.Node
		s.must(s.remote.Get(s.t.Context(), client.ObjectKey{Name: name}, &node))
		f(&node)
		return s.remote.Status().Update(s.t.Context(), &node)
	})
}

// cluster returns the Cluster on the hub.
func (s *site) cluster() *hubv1.Cluster {
	s.t.Helper()
	var c hubv1.Cluster
	s.must(s.hub.Get(s.t.Context(), client.ObjectKey{Name: s.name}, &c))
	return &c
}

func (s *site) eventually(f func() error) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(f).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(gomega.Succeed())
}

// installed is whether the hub, which the tests share, has the CRD.
var installed sync.Once

func installCRD(hub *fleet.Cluster) (err error) {
	installed.Do(func() {
		_, err = envtest.InstallCRDs(hub.Config(), envtest.CRDInstallOptions{
			Paths: []string{"../../config/crd"}, ErrorIfPathMissing: true,
		})
	})
	return err
}

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, hubv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func httpClientFor(t testing.TB, c *fleet.Cluster) *http.Client {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(httpClient.CloseIdleConnections)
	return httpClient
}

func clientFor(t testing.TB, c *fleet.Cluster) client.WithWatch {
	t.Helper()
	direct, err := client.NewWithWatch(c.Config(), client.Options{HTTPClient: httpClientFor(t, c), Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return direct
}
