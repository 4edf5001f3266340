// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/fx"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

var (
	remotes = flag.String("remotes", "50,200", "how many remotes the benchmark engages, comma separated")
	heapsTo = flag.String("heaps", "", "a folder for the heap profile of each contestant, while it runs")
	bodies  = flag.String("bodies", "equal", "whether the objects of remotes have equal bodies, or differ")
)

const (
	benchServers = 3
	benchObjects = 100 // per remote
)

// BenchmarkEngage measures the cost of a remote: the time until every reconciler has seen every object of its remote,
// CPU, memory and goroutines. It compares with the floor in the same run. The remotes are many addresses of a few real API
// servers; with -bodies=differ each remote has a namespace with objects of its own.
func BenchmarkEngage(b *testing.B) {
	for field := range strings.SplitSeq(*remotes, ",") {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatalf("-remotes: %v", err)
		}
		all := benchFleet(b, n)
		b.Run(fmt.Sprintf("remotes=%d/floor", n), func(b *testing.B) { engage(b, all, engageFloor) })
		b.Run(fmt.Sprintf("remotes=%d/registry", n), func(b *testing.B) { engage(b, all, engageRegistry) })
	}
}

// benchRemote is an address of an API server, and the namespace with the objects to see there.
type benchRemote struct {
	kubeconfig []byte
	namespace  string
}

func benchFleet(b *testing.B, n int) []benchRemote {
	b.Helper()
	var addresses []netip.Addr
	for i := range n {
		addresses = append(addresses, netip.AddrFrom4([4]byte{127, 1, byte(i / 250), byte(1 + i%250)}))
	}
	f := fleettest.New(b, fleet.Options{Addresses: addresses})
	var all []benchRemote
	var clusters []*fleet.Cluster
	for i := range benchServers {
		c, err := f.Create(b.Context(), fmt.Sprintf("bench-%d", i))
		must(b, err)
		if *bodies == "equal" {
			fill(b, c, metav1.NamespaceDefault)
		}
		clusters = append(clusters, c)
	}
	for i, address := range addresses {
		one, err := fleet.At(clusters[i%benchServers].Kubeconfig(), address)
		must(b, err)
		remote := benchRemote{kubeconfig: one, namespace: metav1.NamespaceDefault}
		if *bodies != "equal" {
			remote.namespace = fmt.Sprintf("remote-%d", i)
			fill(b, clusters[i%benchServers], remote.namespace)
		}
		all = append(all, remote)
	}
	return all
}

// fill creates the objects of a namespace, whose bodies name it and differ.
func fill(b *testing.B, c *fleet.Cluster, namespace string) {
	b.Helper()
	direct, group, kind := clientFor(b, c), errgroup.Group{}, benchKindOf(b)
	if namespace != metav1.NamespaceDefault {
		must(b, direct.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	}
	group.SetLimit(10)
	for i := range benchObjects {
		group.Go(func() error {
			one := kind.make(metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("bench-%d", i)}, fmt.Sprintf("%s-%d", namespace, i))
			withStatus, _ := one.DeepCopyObject().(client.Object)
			if err := direct.Create(b.Context(), one); err != nil || *objects != "pods" {
				return err
			}
			withStatus.SetResourceVersion(one.GetResourceVersion())
			return direct.Status().Update(b.Context(), withStatus)
		})
	}
	must(b, group.Wait())
}

// seen counts the objects of all remotes and reports when all have been seen.
type seen struct {
	left atomic.Int64
	all  chan struct{}
}

func (s *seen) one() {
	if s.left.Add(-1) == 0 {
		close(s.all)
	}
}

// engaging starts a watch for every remote and reports each object that it sees to s.
type engaging func(b *testing.B, all []benchRemote, s *seen) (stop func())

func engage(b *testing.B, all []benchRemote, start engaging) {
	b.Helper()
	n := len(all)
	fleettest.Cluster(b, "hub") // The measurement does not include its start.
	for b.Loop() {
		b.StopTimer()
		before := measure()
		s := &seen{all: make(chan struct{})}
		s.left.Store(int64(n * benchObjects))
		b.StartTimer()
		began := time.Now()
		stop := start(b, all, s)
		select {
		case <-s.all:
		case <-time.After(5 * time.Minute):
			b.Fatalf("%d objects have not been seen, want 0", s.left.Load())
		}
		took := time.Since(began)
		b.StopTimer()
		after := measure()
		writeHeap(b)
		b.ReportMetric(took.Seconds(), "s/all-seen")
		b.ReportMetric(after.cpu.Seconds()-before.cpu.Seconds(), "cpu-s")
		b.ReportMetric(float64(after.heap-before.heap)/float64(n)/1024, "KiB-heap/remote")
		b.ReportMetric(float64(after.limited-before.limited)/float64(n)/1024, "KiB/remote")
		b.ReportMetric(float64(after.stacks-before.stacks)/float64(n)/1024, "KiB-stacks/remote")
		b.ReportMetric(float64(after.goroutines-before.goroutines)/float64(n), "goroutines/remote")
		stop()
		b.StartTimer()
	}
}

func writeHeap(b *testing.B) {
	b.Helper()
	if *heapsTo == "" {
		return
	}
	file, err := os.Create(filepath.Join(*heapsTo, strings.ReplaceAll(b.Name(), "/", "-")))
	must(b, errors.Join(err, pprof.WriteHeapProfile(file), file.Close()))
}

type usage struct {
	cpu        time.Duration
	heap       int64 // that lives
	stacks     int64
	limited    int64 // what a limit of memory sees: the spans of the heap in use, and the stacks
	goroutines int
}

func measure() usage {
	var cpu syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &cpu)
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{
		cpu:  time.Duration(cpu.Utime.Nano() + cpu.Stime.Nano()),
		heap: int64(m.HeapAlloc), stacks: int64(m.StackInuse), limited: int64(m.HeapInuse + m.StackInuse), goroutines: runtime.NumGoroutine(),
	}
}

// engageFloor runs what client-go has, and nothing else: an informer per remote with a client of its own, a work queue and one
// worker, which reads each object from the store and copies it.
func engageFloor(b *testing.B, all []benchRemote, s *seen) func() {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var factories []informers.SharedInformerFactory
	kind := benchKindOf(b)
	for _, one := range all {
		config, err := clientcmd.RESTConfigFromKubeConfig(one.kubeconfig)
		must(b, err)
		config.ContentType, config.QPS = "application/vnd.kubernetes.protobuf", -1
		config.Dial = (&net.Dialer{}).DialContext // client-go shares the connections of configurations that are equal otherwise.
		set, err := kubernetes.NewForConfig(config)
		must(b, err)
		factory := informers.NewSharedInformerFactoryWithOptions(set, 0, informers.WithNamespace(one.namespace))
		informer := kind.informer(factory)
		_, err = informer.AddEventHandler(floorWorker(ctx, informer, s))
		must(b, err)
		factory.StartWithContext(ctx)
		factories = append(factories, factory)
	}
	return func() {
		cancel()
		for _, f := range factories {
			f.Shutdown()
		}
	}
}

func floorWorker(ctx context.Context, informer cache.SharedIndexInformer, s *seen) cache.ResourceEventHandler {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	context.AfterFunc(ctx, queue.ShutDown)
	go func() {
		for key, ended := queue.Get(); !ended; key, ended = queue.Get() {
			if obj, ok, _ := informer.GetStore().GetByKey(key); ok {
				_ = obj.(client.Object).DeepCopyObject() //nolint:forcetypeassert // It is an object.
				s.one()
			}
			queue.Forget(key)
			queue.Done(key)
		}
	}()
	return cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
			queue.Add(key)
		}
	}}
}

func engageRegistry(b *testing.B, all []benchRemote, s *seen) func() {
	b.Helper()
	kind := benchKindOf(b)
	watcher := registry.NewModule("watcher", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return ctrl.NewControllerManagedBy(p.Manager).Named("watcher").For(kind.empty).Complete(
			reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
				s.one()
				return ctrl.Result{}, nil
			}))
	})})
	r := newRegistry(b, func(o *registry.Options) { o.Modules = []registry.Module{watcher} })
	for i, one := range all {
		config := configFor(b, one.kubeconfig)
		config.Namespaces = []string{one.namespace}
		must(b, r.Ensure(registry.ClusterName(fmt.Sprintf("remote-%d", i)), config))
	}
	return func() { _ = r.Shutdown(context.WithoutCancel(b.Context())) }
}

var objects = flag.String("objects", "configmaps", "what the benchmark of engaging watches: configmaps of 2 KB, or pods")

// benchKind is a kind of objects that a benchmark watches.
type benchKind struct {
	empty    client.Object
	informer func(informers.SharedInformerFactory) cache.SharedIndexInformer
	// make returns an object with a status. text is different in each remote, unless the bodies are equal.
	make func(meta metav1.ObjectMeta, text string) client.Object
}

func benchKindOf(b *testing.B) benchKind {
	b.Helper()
	switch *objects {
	case "configmaps":
		return benchKind{
			empty: &corev1.ConfigMap{},
			make:  benchConfigMap,
			informer: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Core().V1().ConfigMaps().Informer()
			},
		}
	case "pods":
		return benchKind{
			empty: &corev1.Pod{},
			make:  benchPod,
			informer: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Core().V1().Pods().Informer()
			},
		}
	}
	b.Fatalf("-objects=%s: want configmaps or pods", *objects)
	return benchKind{}
}
