// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

var remotes = flag.String("remotes", "200,500", "how many Clusters the benchmark has, comma separated")

const (
	benchServers = 3   // API servers of remotes
	benchObjects = 100 // ConfigMaps of 2 KB in each
)

// BenchmarkStart measures how long a whole hub takes with Clusters that exist: until all are Ready for the first time, and after a
// restart, beside a registry that gets the same remotes at once. It counts the requests of the hub to its API server, and the
// processor time of that.
func BenchmarkStart(b *testing.B) {
	for field := range strings.SplitSeq(*remotes, ",") {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatalf("-remotes: %v", err)
		}
		b.Run(fmt.Sprintf("remotes=%d", n), func(b *testing.B) {
			for b.Loop() {
				benchStart(b, n)
			}
		})
	}
}

func benchStart(b *testing.B, n int) {
	b.Helper()
	s := newBenchHub(b, n)
	s.engage() // The API servers of the remotes are slower for their first clients.
	alone := s.engage()
	first := s.runHub(s.allReported)
	s.print("first start", n)
	beside := s.engage()
	again := s.runHub(s.allRun)
	s.print("restart", n)
	b.ReportMetric(alone.took.Seconds(), "alone-s")
	b.ReportMetric(first.took.Seconds(), "first-s")
	b.ReportMetric(first.took.Seconds()/alone.took.Seconds(), "first/alone")
	b.ReportMetric(first.cpu, "first-hub-api-cpu-s")
	b.ReportMetric(again.took.Seconds(), "restart-s")
	b.ReportMetric(again.took.Seconds()/beside.took.Seconds(), "restart/alone")
	b.ReportMetric(again.cpu, "restart-hub-api-cpu-s")
}

type benchHub struct {
	b           *testing.B
	hub         *fleet.Cluster
	admin       client.WithWatch
	kubeconfigs map[string][]byte // by the names of Clusters
	registry    atomic.Pointer[registry.Registry]

	mu       sync.Mutex
	requests map[string]int // of the hub to its API server
}

type cost struct {
	took time.Duration
	cpu  float64 // seconds of the hub's API server
}

func newBenchHub(b *testing.B, n int) *benchHub {
	b.Helper()
	var addresses []netip.Addr
	for i := range n {
		addresses = append(addresses, netip.AddrFrom4([4]byte{127, 1, byte(i / 250), byte(1 + i%250)}))
	}
	f := fleettest.New(b, fleet.Options{Addresses: addresses})
	s := &benchHub{b: b, kubeconfigs: map[string][]byte{}, requests: map[string]int{}}
	var err error
	s.hub, err = f.Create(b.Context(), "hub")
	must(b, err)
	scheme := fleettest.Scheme(b, hubv1.AddToScheme)
	s.admin, err = client.NewWithWatch(s.hub.Config(), client.Options{Scheme: scheme})
	must(b, err)
	fleettest.InstallCRDs(b, s.hub.Config())
	must(b, s.admin.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}}))
	var servers []*fleet.Cluster
	for i := range benchServers {
		one, err := f.Create(b.Context(), fmt.Sprintf("bench-%d", i))
		must(b, err)
		fillRemote(b, one)
		servers = append(servers, one)
	}
	group := errgroup.Group{}
	group.SetLimit(10)
	for i, address := range addresses {
		name := fmt.Sprintf("remote-%04d", i)
		s.kubeconfigs[name], err = fleet.At(servers[i%benchServers].Kubeconfig(), address)
		must(b, err)
		text := s.kubeconfigs[name]
		group.Go(func() error { return s.register(name, text) })
	}
	must(b, group.Wait())
	return s
}

func fillRemote(b *testing.B, c *fleet.Cluster) {
	b.Helper()
	direct := fleettest.Client(b, c)
	group := errgroup.Group{}
	group.SetLimit(10)
	for i := range benchObjects {
		group.Go(func() error {
			return direct.Create(b.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("bench-%d", i)},
				Data:       map[string]string{"text": strings.Repeat("x", 2048)},
			})
		})
	}
	must(b, group.Wait())
}

func (s *benchHub) register(name string, text []byte) error {
	err := s.admin.Create(s.b.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: name}, Data: map[string][]byte{"kubeconfig": text},
	})
	if err != nil {
		return err
	}
	return s.admin.Create(s.b.Context(), &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name}, Namespaces: []string{"default"}},
	})
}

func (s *benchHub) count(next http.RoundTripper) http.RoundTripper {
	return testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
		info := requestinfo.Of(r.URL.Path)
		kind := r.Method + " " + info.Resource
		if info.Subresource != "" {
			kind += "/" + info.Subresource
		}
		if r.URL.Query().Get("watch") != "" {
			kind = "WATCH " + info.Resource
		}
		if info.Name == "" && r.Method == http.MethodGet {
			kind += " (list)"
		}
		response, err := next.RoundTrip(r)
		if err == nil && response.StatusCode >= http.StatusBadRequest {
			kind += " " + strconv.Itoa(response.StatusCode)
		}
		s.mu.Lock()
		s.requests[kind]++
		s.mu.Unlock()
		return response, err
	})
}

func (s *benchHub) print(what string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("%s with %d Clusters: requests to the hub's API server, and for each Cluster\n", what, n)
	for _, kind := range slices.Sorted(maps.Keys(s.requests)) {
		text += fmt.Sprintf("%6d %5.2f  %s\n", s.requests[kind], float64(s.requests[kind])/float64(n), kind)
	}
	_, _ = fmt.Fprint(os.Stdout, text) // A benchmark logs no more than ten lines.
	clear(s.requests)
}

// watcher is a module that watches the ConfigMaps of a remote, and keeps the registry of the hub.
func (s *benchHub) watcher() registry.Module {
	return registry.NewModule("watcher", registry.ModuleOptions{
		Remote: fx.Invoke(func(p registry.Remote) error {
			return ctrl.NewControllerManagedBy(p.Manager).Named("watcher").For(&corev1.ConfigMap{}).Complete(
				reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
		}),
		HubRuns: registry.WithRemotes,
		Hub:     fx.Invoke(func(r *registry.Registry) { s.registry.Store(r) }),
	})
}

func (s *benchHub) options() app.Options {
	o := app.Options{Config: s.hub.Config(), Modules: []registry.Module{s.watcher()}, Alone: true}
	o.Registry.Policy.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	o.Registry.AllowDuplicates = true
	o.Config.Wrap(s.count)
	return o
}

func (s *benchHub) runHub(done func() error) cost {
	s.b.Helper()
	s.registry.Store(nil)
	before := s.hubCPU()
	ctx, cancel := context.WithCancel(s.b.Context())
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- app.Run(ctx, s.options()) }()
	s.await(done)
	c := cost{took: time.Since(began), cpu: s.hubCPU() - before}
	cancel()
	must(s.b, <-ended)
	return c
}

func (s *benchHub) await(done func() error) {
	s.b.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.b.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// allReported waits until all Clusters are Ready. It watches them, which costs the API server little.
func (s *benchHub) allReported() error {
	watch, err := s.admin.Watch(s.b.Context(), &hubv1.ClusterList{})
	if err != nil {
		return err
	}
	defer watch.Stop()
	ready := map[string]bool{}
	for e := range watch.ResultChan() {
		if c, ok := e.Object.(*hubv1.Cluster); ok && meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionReady) {
			ready[c.Name] = true
		}
		if len(ready) == len(s.kubeconfigs) {
			return nil
		}
	}
	return fmt.Errorf("%d Clusters are Ready", len(ready))
}

// allRun returns nil when all apps run.
func (s *benchHub) allRun() error {
	r := s.registry.Load()
	if r == nil {
		return errors.New("no registry")
	}
	return s.allReady(r)
}

// allReady returns nil when all remotes are Ready. It stops at the first one that is not: a list of all remotes in each turn
// would take a tenth of the processor time that it measures.
func (s *benchHub) allReady(r *registry.Registry) error {
	for name := range s.kubeconfigs {
		if info, known := r.Status(registry.ClusterName(name)); !known || info.State != state.StateReady {
			return fmt.Errorf("%s is %s: %s", name, info.State, info.Message)
		}
	}
	return nil
}

func (s *benchHub) engage() cost {
	s.b.Helper()
	o := s.options().Registry
	o.Hub, o.Scheme, o.Modules = s.hub.Config(), fleettest.Scheme(s.b, hubv1.AddToScheme), []registry.Module{s.watcher()}
	httpClient, err := rest.HTTPClientFor(o.Hub)
	must(s.b, err)
	o.HubMapper, err = apiutil.NewDynamicRESTMapper(o.Hub, httpClient)
	must(s.b, err)
	r, err := registry.New(o)
	must(s.b, err)
	began := time.Now()
	for name, text := range s.kubeconfigs {
		c, err := kubeconfig.Parse(map[string][]byte{"kubeconfig": text}, kubeconfig.Options{}, o.Policy)
		must(s.b, err)
		must(s.b, r.Ensure(registry.ClusterName(name), state.Desired{
			Endpoint: c.Endpoint, Credential: c.Credential, Namespaces: []string{"default"},
		}))
	}
	s.await(func() error { return s.allReady(r) })
	took := time.Since(began)
	must(s.b, r.Shutdown(s.b.Context()))
	return cost{took: took}
}

func (s *benchHub) hubCPU() float64 {
	s.b.Helper()
	set, err := kubernetes.NewForConfig(s.hub.Config())
	must(s.b, err)
	text, err := set.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(s.b.Context())
	must(s.b, err)
	for line := range strings.SplitSeq(string(text), "\n") {
		if value, ok := strings.CutPrefix(line, "process_cpu_seconds_total "); ok {
			seconds, err := strconv.ParseFloat(value, 64)
			must(s.b, err)
			return seconds
		}
	}
	s.b.Fatal("the API server does not tell its processor time")
	return 0
}
