// SPDX-License-Identifier: Apache-2.0

package entities_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	pkgruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

// workers is how many entities each controller reconciles at once, in all variants; package entity has as many.
const workers = 10

// size returns a number of the environment, or a default.
func size(b *testing.B, variable string, otherwise int) int {
	b.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	must(b, err)
	return n
}

// Custom is the custom resource of the baseline.
type Custom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              order         `json:"spec"`
	Status            entity.Status `json:"status,omitzero"`
}

// DeepCopyObject returns a copy.
func (c *Custom) DeepCopyObject() pkgruntime.Object {
	out := *c
	c.DeepCopyInto(&out.ObjectMeta)
	out.Status.Clusters = maps.Clone(c.Status.Clusters)
	return &out
}

// CustomList is a list of them.
type CustomList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Custom `json:"items"`
}

// DeepCopyObject returns a copy.
func (l *CustomList) DeepCopyObject() pkgruntime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Custom))
	}
	return &out
}

var customVersion = schema.GroupVersion{Group: "bench.example.com", Version: "v1"}

func addCustom(scheme *pkgruntime.Scheme) error {
	scheme.AddKnownTypes(customVersion, &Custom{}, &CustomList{})
	metav1.AddToGroupVersion(scheme, customVersion)
	return nil
}

func installCustom(b *testing.B, config *rest.Config) {
	b.Helper()
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{
		fleettest.CRD(b, customVersion.WithKind("Custom"), `{type: object, properties: {
  spec: {type: object, x-kubernetes-preserve-unknown-fields: true},
  status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`),
	}})
	must(b, err)
}

// field is the benchmark's clusters: a hub, and remotes with a counter of the ConfigMaps with each text.
type field struct {
	b       *testing.B
	scheme  *pkgruntime.Scheme
	hub     *rest.Config
	admin   client.Client // of the hub
	remotes []*benchRemote
	n       int
}

// benchRemote counts the ConfigMaps of a namespace by an informer of its own, which all variants have.
type benchRemote struct {
	name      string
	config    *rest.Config
	client    client.Client
	namespace string

	mu   sync.Mutex // protects the fields
	text map[string]string
}

func (r *benchRemote) see(obj any) {
	c, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text[c.Name] = c.Data["text"]
}

func (r *benchRemote) has(key, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text[key] == text
}

func (r *benchRemote) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for key := range r.text {
		if key[0] == 'o' {
			n++
		}
	}
	return n
}

func newField(b *testing.B, n, remotes int) *field {
	b.Helper()
	names := []string{"bench-hub"}
	for i := range remotes {
		names = append(names, fmt.Sprint("bench-remote-", i))
	}
	clusters := fleettest.Clusters(b, names...)
	f := &field{b: b, scheme: fleettest.Scheme(b, addCustom), hub: clusters[0].Config(), n: n}
	f.hub.QPS = -1
	installCustom(b, f.hub)
	f.admin = fleettest.ClientFor(b, f.hub, addCustom)
	for i, c := range clusters[1:] {
		r := &benchRemote{name: names[i+1], config: c.Config(), text: map[string]string{}}
		r.config.QPS = -1
		r.client = fleettest.ClientFor(b, r.config, addCustom)
		r.namespace = fleettest.Namespace(b, r.client, "bench-")
		f.watch(r)
		f.remotes = append(f.remotes, r)
	}
	return f
}

// watch starts the informer of a remote.
func (f *field) watch(r *benchRemote) {
	all, err := cache.New(r.config, cache.Options{Scheme: f.scheme, DefaultNamespaces: map[string]cache.Config{r.namespace: {}}})
	must(f.b, err)
	informer, err := all.GetInformer(f.b.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	must(f.b, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: r.see, UpdateFunc: func(_, now any) { r.see(now) }})
	must(f.b, err)
	go func() { _ = all.Start(f.b.Context()) }()
	all.WaitForCacheSync(f.b.Context())
}

func (f *field) manager(r *benchRemote) ctrl.Manager {
	m, err := ctrl.NewManager(r.config, ctrl.Options{
		Scheme: f.scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache: cache.Options{ // As in an app, without managed fields.
			DefaultFieldSelector: fields.OneTermEqualSelector("metadata.namespace", r.namespace),
			DefaultTransform:     cache.TransformStripManagedFields(),
		},
	})
	must(f.b, err)
	return m
}

// converged waits until each remote has all ConfigMaps.
func (f *field) converged() {
	f.b.Helper()
	f.wait(100*time.Millisecond, func() error { // Often would take processor time from the variants.
		for _, r := range f.remotes {
			if got := r.count(); got < f.n {
				return fmt.Errorf("%s has %d of %d", r.name, got, f.n)
			}
		}
		return nil
	})
}

// wait waits without a bound of a test: a benchmark takes as long as it takes.
func (f *field) wait(every time.Duration, check func() error) {
	f.b.Helper()
	end := time.Now().Add(30 * time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			f.b.Fatal(err)
		}
		<-time.After(every)
	}
}

func key(i int) string { return fmt.Sprint("o", i) }

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// BenchmarkConverge compares entities with custom resources as primaries of one ConfigMap in each of three remotes: the time until all
// are made (also without the time of the applies alone, which it measures, too), the heap, and the time from a put to the ConfigMap that
// a client of the remote sees. CLUSTERFX_ENTITIES is the number of primaries, and CLUSTERFX_REMOTES that of remotes.
func BenchmarkConverge(b *testing.B) {
	n, remotes := size(b, "CLUSTERFX_ENTITIES", 10_000), size(b, "CLUSTERFX_REMOTES", 3)
	for b.Loop() {
		raw := rawApplies(newField(b, n, remotes))
		b.ReportMetric(raw.Seconds(), "raw-s")
		newField(b, n, remotes).measure("nats", &inNATS{}, raw)
		newField(b, n, remotes).measure("cr", &inKubernetes{}, raw)
	}
}

// rawApplies returns how long the applies alone take, with as many workers.
func rawApplies(f *field) time.Duration {
	begun := time.Now()
	var running sync.WaitGroup
	for _, r := range f.remotes {
		running.Go(func() {
			inParallel(f.n, func(i int) {
				wanted := corev1ac.ConfigMap(key(i), r.namespace).WithData(map[string]string{"text": "first"}).
					WithLabels(map[string]string{"owner": key(i)}).WithAnnotations(map[string]string{"owner": key(i)})
				must(f.b, r.client.Apply(f.b.Context(), wanted, client.FieldOwner("raw"), client.ForceOwnership))
			})
		})
	}
	running.Wait()
	f.converged()
	return time.Since(begun)
}

const latencies = 300

func (f *field) measure(name string, v variant, raw time.Duration) {
	v.fill(f)
	before := heap()
	ctx, cancel := context.WithCancel(f.b.Context())
	var running sync.WaitGroup
	begun := time.Now()
	v.start(ctx, f, &running)
	f.converged()
	made := time.Since(begun)
	f.wait(time.Second/2, func() error { return v.reported(f) })
	reported := time.Since(begun)
	f.b.ReportMetric(made.Seconds(), name+"-made-s")
	f.b.ReportMetric((made - raw).Seconds(), name+"-less-raw-s")
	f.b.ReportMetric(reported.Seconds(), name+"-reported-s")
	f.b.ReportMetric(heap()-before, name+"-MiB")
	var took []time.Duration
	for i := range latencies {
		text := fmt.Sprint("put ", i)
		begun := time.Now()
		v.put(f, key(i), text)
		f.wait(time.Millisecond, func() error {
			if !f.remotes[0].has(key(i), text) {
				return errors.New("the remote does not have it")
			}
			return nil
		})
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	f.b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, name+"-p50-ms")
	f.b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, name+"-p99-ms")
	cancel()
	running.Wait()
}

// BenchmarkRestart measures how long a new process takes until it has verified the ConfigMaps of 100 000 entities in one remote, with
// their status: nothing is written. CLUSTERFX_ENTITIES is the number of entities.
func BenchmarkRestart(b *testing.B) {
	n := size(b, "CLUSTERFX_ENTITIES", 100_000)
	for b.Loop() {
		f, v := newField(b, n, 1), &inNATS{}
		v.fill(f)
		ctx, cancel := context.WithCancel(b.Context())
		var running sync.WaitGroup
		v.start(ctx, f, &running)
		f.converged()
		f.wait(time.Second/2, func() error { return v.reported(f) })
		cancel()
		running.Wait()
		took := v.verify(f)
		b.ReportMetric(took.Seconds(), "restart-s")
	}
}

// verify starts a process, and returns how long it takes until it has reconciled all entities.
func (v *inNATS) verify(f *field) time.Duration {
	ctx, cancel := context.WithCancel(f.b.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	before, err := bucket.Describe(ctx, v.js, entity.StatusBucket(ordersBucket), hubID)
	must(f.b, err)
	begun := time.Now()
	connection, err := natshub.New(natshub.Options{URL: v.server.URL()}, natshub.Environment{HubID: hubID})
	must(f.b, err)
	orders, err := connection.Follow(ordersBucket)
	must(f.b, err)
	v.status, err = connection.Follow(entity.StatusBucket(ordersBucket))
	must(f.b, err)
	r := f.remotes[0]
	var mu sync.Mutex
	seen := make(map[string]bool, f.n)
	m := f.manager(r)
	_, err = entity.Add(entity.NewStore(orders, entity.JSON[order](nil)),
		entity.Func[order](func(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
			err := out.Apply(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: e.Key}, Data: map[string]string{"text": e.Value.Text},
			})
			mu.Lock()
			defer mu.Unlock()
			seen[e.Key] = err == nil
			return entity.Report{Ready: err == nil, Reason: "Made"}, err
		}), entity.Options{
			Name: "orders", Marks: entity.Marks{Hub: hubID, Kind: "Order"}, Manager: m, Cluster: r.name,
			Owns: []client.Object{&corev1.ConfigMap{}}, Status: entity.NewStatusStore(v.status),
		})
	must(f.b, err)
	running.Go(func() { _ = m.Start(ctx) })
	running.Go(func() { _ = connection.Run(ctx) })
	f.wait(10*time.Millisecond, func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(seen) < f.n {
			return fmt.Errorf("%d of %d are verified", len(seen), f.n)
		}
		return nil
	})
	took := time.Since(begun)
	after, err := bucket.Describe(ctx, v.js, entity.StatusBucket(ordersBucket), hubID)
	must(f.b, err)
	f.b.Logf("%d writes to the status, with the canary", int64(after.LastRevision)-int64(before.LastRevision))
	return took
}
