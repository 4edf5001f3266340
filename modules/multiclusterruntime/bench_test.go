// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

var (
	remotes = flag.String("remotes", "1,50,500", "how many remotes the benchmarks engage, comma separated")
	objects = flag.Int("objects", 1, "how many ConfigMaps each remote has, of 2 KB if there is more than one")
)

const (
	benchServers = 3
	benchWrites  = 300     // number of measured writes
	seed         = "seed-" // begins the names of the objects that exist before
	seedBytes    = 2000
)

// benchRemote is a remote of a benchmark: one of many addresses of a few API servers, and a namespace there that no
// other remote watches, so that a write to it is an event in this remote only.
type benchRemote struct {
	name       string // also name of its namespace
	kubeconfig []byte
	direct     client.Client
	silent     bool
}

// BenchmarkRemotes measures controllers on the hub that watch ConfigMaps in many remotes: the time until the controller
// has seen all objects of each, and then the time from before a write to a remote until Reconcile is called. It measures
// plain informers, registry/watch, this package's provider under multicluster-runtime, and that library's own provider of
// kubeconfigs, with the same API servers.
func BenchmarkRemotes(b *testing.B) {
	for field := range strings.SplitSeq(*remotes, ",") {
		n, err := strconv.Atoi(field)
		testkit.Must(b, err)
		all := benchFleet(b, n)
		for _, one := range contestants() {
			b.Run(fmt.Sprintf("remotes=%d/%s", n, one.name), func(b *testing.B) { one.measure(b, all, benchWrites) })
		}
	}
}

// BenchmarkBlackHoles measures the time until a controller has seen an object of each of 47 remotes while three other
// remotes are silent from the start.
func BenchmarkBlackHoles(b *testing.B) {
	const n, silent = 50, 3
	all := benchFleet(b, n)
	for i := range silent {
		all[i].blackhole(b)
	}
	for _, one := range contestants() {
		b.Run(fmt.Sprintf("remotes=%d/silent=%d/%s", n, silent, one.name), func(b *testing.B) { one.measure(b, all, 0) })
	}
}

// blackhole makes the remote silent.
func (r *benchRemote) blackhole(b *testing.B) {
	b.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(r.kubeconfig)
	testkit.Must(b, err)
	p := fleettest.Proxy(b, config.Host)
	testkit.Must(b, p.Set(fault.Blackhole()))
	if r.kubeconfig, err = p.Kubeconfig(r.kubeconfig); err != nil {
		b.Fatal(err)
	}
	r.silent = true
}

// benchFleet returns n remotes on a few API servers, each with its objects.
func benchFleet(b *testing.B, n int) []benchRemote {
	b.Helper()
	var addresses []netip.Addr
	for i := range n {
		addresses = append(addresses, netip.AddrFrom4([4]byte{127, 1, byte(i / 250), byte(1 + i%250)}))
	}
	f := fleettest.New(b, fleet.Options{Addresses: addresses})
	var clusters []*fleet.Cluster
	var clients []client.Client
	for i := range min(n, benchServers) {
		c, err := f.Create(b.Context(), fmt.Sprintf("bench-%d", i))
		testkit.Must(b, err)
		clusters, clients = append(clusters, c), append(clients, fleettest.Client(b, c))
	}
	all, group := make([]benchRemote, n), errgroup.Group{}
	group.SetLimit(10)
	for i, address := range addresses {
		at, err := fleet.At(clusters[i%len(clusters)].Kubeconfig(), address)
		testkit.Must(b, err)
		all[i] = benchRemote{name: fmt.Sprintf("remote-%03d", i), kubeconfig: at, direct: clients[i%len(clients)]}
		group.Go(func() error { return all[i].fill(b.Context()) })
	}
	testkit.Must(b, group.Wait())
	return all
}

// fill creates the remote's namespace and the objects in it, which differ between remotes.
func (r *benchRemote) fill(ctx context.Context) error {
	if err := r.direct.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.name}}); err != nil {
		return err
	}
	for i := range *objects {
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: fmt.Sprint(seed, i)}}
		if *objects > 1 {
			one.Data = map[string]string{"content": strings.Repeat(fmt.Sprint(r.name, i), seedBytes/len(r.name))}
		}
		if err := r.direct.Create(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func (c contestant) measure(b *testing.B, all []benchRemote, writes int) {
	b.Helper()
	fleettest.Cluster(b, "hub") // starts the hub's cluster before the measurement
	for b.Loop() {
		runtime.GC()
		w := newWitness(all)
		begin := c.prepare(b, all, w.note)
		began := time.Now()
		stop := begin()
		select {
		case <-w.all:
		case <-time.After(10 * time.Minute):
			b.Fatal("objects of some remotes were not seen")
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/all-engaged")
		b.ReportMetric(0, "ns/op") // hides the meaningless default metric
		if writes > 0 {
			latencies(b, all, w, writes)
		}
		stop()
	}
}

// latencies measures events, one after the other.
func latencies(b *testing.B, all []benchRemote, w *witness, writes int) {
	b.Helper()
	var seen, written []time.Duration
	for i := range writes {
		to := all[i*7%len(all)] // spreads consecutive writes
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: to.name, GenerateName: "event-"}}
		w.expect(to.name)
		began := time.Now()
		testkit.Must(b, to.direct.Create(b.Context(), one))
		written = append(written, time.Since(began))
		select {
		case at := <-w.event:
			seen = append(seen, at.Sub(began))
		case <-time.After(patience):
			b.Fatalf("event of %s was not seen", to.name)
		}
	}
	b.ReportMetric(quantile(seen, 50), "ms-p50")
	b.ReportMetric(quantile(seen, 99), "ms-p99")
	b.ReportMetric(quantile(written, 50), "ms-write-p50")
}

// quantile returns a percentile in milliseconds.
func quantile(of []time.Duration, percent int) float64 {
	slices.Sort(of)
	return float64(of[(len(of)-1)*percent/100].Microseconds()) / 1000
}

// witness records every call of Reconcile.
type witness struct {
	all   chan struct{} // closed when the objects of every remote were seen
	event chan time.Time

	mu       sync.Mutex                 // protects the fields below
	unseen   map[string]map[string]bool // for each remote the names of its objects
	expected string                     // the remote whose next event is measured
}

func newWitness(all []benchRemote) *witness {
	w := &witness{all: make(chan struct{}), event: make(chan time.Time, 1), unseen: map[string]map[string]bool{}}
	for _, one := range all {
		if one.silent {
			continue
		}
		w.unseen[one.name] = map[string]bool{}
		for i := range *objects {
			w.unseen[one.name][fmt.Sprint(seed, i)] = true
		}
	}
	return w
}

func (w *witness) expect(cluster string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expected = cluster
}

// note is called by reconcilers.
func (w *witness) note(cluster string, key client.ObjectKey) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if left := w.unseen[cluster]; left[key.Name] {
		if delete(left, key.Name); len(left) == 0 {
			delete(w.unseen, cluster)
		}
		if len(w.unseen) == 0 {
			close(w.all)
		}
	}
	if !strings.HasPrefix(key.Name, seed) && w.expected == cluster {
		w.expected = ""
		w.event <- now
	}
}
