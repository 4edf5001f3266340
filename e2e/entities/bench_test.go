// SPDX-License-Identifier: Apache-2.0

package entities_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

// BenchmarkRestart measures how long a new process takes until it has verified the ConfigMaps of 100 000 entities in one remote, with
// their status: nothing is written. CLUSTERFX_ENTITIES is the number of entities.
func BenchmarkRestart(b *testing.B) {
	n := 100_000
	if text := os.Getenv("CLUSTERFX_ENTITIES"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		must(b, err)
	}
	for b.Loop() {
		f := newField(b, n)
		f.reconcileAll()
		before := f.writes()
		b.ReportMetric(f.reconcileAll().Seconds(), "restart-s")
		b.Logf("%d writes to the status, with the canary", f.writes()-before)
	}
}

// field is a NATS server with n entities, and a remote.
type field struct {
	b         *testing.B
	n         int
	server    *nats.Server
	js        jetstream.JetStream
	config    *rest.Config
	namespace string
}

func newField(b *testing.B, n int) *field {
	b.Helper()
	f := &field{b: b, n: n, server: nats.Start(b), config: fleettest.Cluster(b, "bench-remote").Config()}
	f.config.QPS = -1
	f.namespace = fleettest.Namespace(b, fleettest.ClientFor(b, f.config), "bench-")
	_, f.js = nats.Connect(b, f.server.URL())
	for _, name := range []string{ordersBucket, entity.StatusBucket(ordersBucket)} {
		must(b, bucket.Create(b.Context(), f.js, bucket.Definition{Name: name}))
	}
	kv, err := f.js.KeyValue(b.Context(), ordersBucket)
	must(b, err)
	for i := range n {
		must(b, testkit.Err(kv.Put(b.Context(), key(i), []byte(`{"text":"first"}`))))
	}
	return f
}

func key(i int) string { return fmt.Sprint("o", i) }

// writes returns the number of writes to the bucket of the status.
func (f *field) writes() bucket.Revision {
	f.b.Helper()
	d, err := bucket.Describe(f.b.Context(), f.js, entity.StatusBucket(ordersBucket), hubID)
	must(f.b, err)
	return d.LastRevision
}

// reconcileAll runs a process until all entities have their ConfigMap and their status, and returns how long the ConfigMaps take.
func (f *field) reconcileAll() time.Duration {
	f.b.Helper()
	ctx, cancel := context.WithCancel(f.b.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	begun := time.Now()
	connection, err := natshub.New(natshub.Options{URL: f.server.URL()}, natshub.Environment{HubID: hubID})
	must(f.b, err)
	orders, err := connection.Follow(ordersBucket)
	must(f.b, err)
	status, err := connection.Follow(entity.StatusBucket(ordersBucket))
	must(f.b, err)
	m, err := ctrl.NewManager(f.config, ctrl.Options{
		Scheme: fleettest.Scheme(f.b), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache: cache.Options{ // As in an app, without managed fields.
			DefaultFieldSelector: fields.OneTermEqualSelector("metadata.namespace", f.namespace),
			DefaultTransform:     cache.TransformStripManagedFields(),
		},
	})
	must(f.b, err)
	var seen sync.Map
	_, err = entity.Add(entity.NewStore(orders, entity.JSON[order](nil)),
		entity.Func[order](func(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
			err := out.Apply(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: e.Key}, Data: map[string]string{"text": e.Value.Text},
			})
			if err == nil {
				seen.Store(e.Key, true)
			}
			return entity.Report{Ready: err == nil, Reason: "Made"}, err
		}), entity.Options{
			Name: "orders", Marks: entity.Marks{Hub: hubID, Kind: "Order"}, Manager: m, Cluster: "remote",
			Owns: []client.Object{&corev1.ConfigMap{}}, Status: entity.NewStatusStore(status),
		})
	must(f.b, err)
	running.Go(func() { _ = m.Start(ctx) })
	running.Go(func() { _ = connection.Run(ctx) })
	f.waitForEach(func(key string) bool { _, made := seen.Load(key); return made })
	took := time.Since(begun)
	f.waitForEach(func(key string) bool {
		e, _ := status.Get(key)
		return len(entity.DecodeStatus(e.Value).Clusters) == 1
	})
	return took
}

// waitForEach waits without a bound of a test: a benchmark takes as long as it takes.
func (f *field) waitForEach(isThere func(key string) bool) {
	f.b.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range f.n {
		for !isThere(key(i)) {
			<-tick.C
		}
	}
}
