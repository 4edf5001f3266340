// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(6)
	os.Exit(hubtest.Main(m))
}

// order is the value of the primaries in these tests.
type order struct {
	Data map[string]string `json:"data,omitempty"`
	Bad  bool              `json:"bad,omitempty"`
}

var (
	errBad    = errors.New("the order is bad")
	errBroken = errors.New("token abc was refused")
)

func validate(o order) error {
	if o.Bad {
		return errBad
	}
	return nil
}

// stage is a server with orders, and a process that makes a ConfigMap of each of them.
type stage struct {
	server     *nats.Server
	js         jetstream.JetStream
	kv, status jetstream.KeyValue
	anchor     *anchor
	remote     client.Client
	namespace  string
	store      *entity.Store[order]
	orders     *bucket.Bucket
	reported   *bucket.Bucket // the status
	controller *entity.Controller[order]
	reports    *entity.StatusStore
	stop       func()
	owned      atomic.Int64 // how many secondaries the last delete was declared to be one of
	cause      atomic.Value // of the last delete
	declared   atomic.Bool  // whether the last delete had evidence
	applied    atomic.Int64
	resync     time.Duration
	failures   atomic.Int64 // how many reconciles shall fail
	reconciles atomic.Int64
	// adapt changes the options and the reconciler of a process. Default: neither.
	adapt func(o *entity.Options, r entity.Reconciler[order], follow func(string) *bucket.Bucket) entity.Reconciler[order]
}

// recording is a client that records the number of objects in deletes.Owning, and how often it applies one.
type recording struct {
	client.Client
	owned, applied *atomic.Int64
	cause          *atomic.Value
	declared       *atomic.Bool
}

func (r recording) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	r.owned.Store(int64(deletes.OwnedIn(ctx)))
	r.cause.Store(deletes.CauseIn(ctx))
	_, declared := deletes.EvidenceOf(ctx)
	r.declared.Store(declared)
	return r.Client.Delete(ctx, obj, opts...)
}

func (r recording) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	r.applied.Add(1)
	return r.Client.Apply(ctx, obj, opts...)
}

func begin(t *testing.T) *stage {
	t.Helper()
	return beginWith(t, nil)
}

func beginWith(t *testing.T, prepare func(*stage)) *stage {
	t.Helper()
	s := &stage{server: nats.Start(t), anchor: &anchor{}}
	_, s.js = nats.Connect(t, s.server.URL())
	s.kv, s.status = nats.Bucket(t, s.js, "orders"), nats.Bucket(t, s.js, "orders-status")
	s.remote = fleettest.Client(t, fleettest.Cluster(t, "remote"))
	s.namespace = fleettest.Namespace(t, s.remote, "entity-")
	if prepare != nil {
		prepare(s)
	}
	s.process(t)
	return s
}

// process starts the controller, as a new process does.
func (s *stage) process(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	s.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(s.stop)
	follow := func(name string, a bucket.Anchor) *bucket.Bucket {
		b, err := bucket.New(bucket.Options{Name: name, JetStream: use(s.js), Writer: "hub", Beat: beat, Anchor: a, Disposable: name == "orders-status"})
		testkit.Must(t, err)
		running.Go(func() { b.Run(ctx) })
		return b
	}
	s.orders, s.reported = follow("orders", s.anchor), follow("orders-status", nil)
	s.store, s.reports = entity.NewStore(s.orders, entity.JSON(validate)), entity.NewStatusStore(s.reported)
	manager, err := ctrl.NewManager(fleettest.Clusters(t, "remote")[0].Config(), ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		NewClient: func(c *rest.Config, o client.Options) (client.Client, error) {
			made, err := client.New(c, o)
			return recording{Client: made, owned: &s.owned, applied: &s.applied, cause: &s.cause, declared: &s.declared}, err
		},
	})
	testkit.Must(t, err)
	o := entity.Options{
		Name: "orders", Marks: entity.Marks{Hub: s.namespace, Kind: "Order"}, Manager: manager, Cluster: "remote",
		Owns: []client.Object{&corev1.ConfigMap{}}, Status: s.reports, Resync: s.resync,
	}
	var r entity.Reconciler[order] = entity.Func[order](s.reconcile)
	if s.adapt != nil {
		r = s.adapt(&o, r, func(name string) *bucket.Bucket { return follow(name, nil) })
	}
	s.controller, err = entity.Add(s.store, r, o)
	testkit.Must(t, err)
	running.Go(func() { _ = manager.Start(ctx) })
}

// reconcile makes the ConfigMap of an order.
func (s *stage) reconcile(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
	s.reconciles.Add(1)
	if s.failures.Add(-1) >= 0 {
		return entity.Report{}, errBroken
	}
	err := out.Apply(ctx, s.configMap(e.Key, e.Value.Data))
	if errors.Is(err, entity.ErrResourceExists) {
		return entity.Report{Reason: "NameTaken", Again: time.Minute}, nil
	}
	return entity.Report{Ready: err == nil, Reason: "Made"}, err
}

func (s *stage) configMap(key string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: key}, Data: data}
}

// put puts an order, as a customer does.
func (s *stage) put(t *testing.T, key, text string) {
	t.Helper()
	testkit.Eventually(t, func() error { _, err := s.kv.Put(t.Context(), key, []byte(text)); return err })
}

func (s *stage) wait(t *testing.T, key, value string) *corev1.ConfigMap {
	t.Helper()
	found := s.configMap(key, nil)
	testkit.Eventually(t, func() error {
		if err := s.remote.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
			return err
		}
		if found.Data["k"] != value {
			return fmt.Errorf("ConfigMap %s has %q, want %q", key, found.Data["k"], value)
		}
		return nil
	})
	return found
}

// waitGone waits until an order has no ConfigMap.
func (s *stage) waitGone(t *testing.T, key string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		err := s.remote.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: key}, &corev1.ConfigMap{})
		if err == nil {
			err = fmt.Errorf("ConfigMap %s exists", key)
		}
		return client.IgnoreNotFound(err)
	})
}

func (s *stage) waitPart(t *testing.T, key, reason string) entity.Part {
	t.Helper()
	var found entity.Part
	testkit.Eventually(t, func() error {
		status, err := s.reports.Get(t.Context(), key)
		found = status.Clusters["remote"]
		if err == nil && found.Reason != reason {
			err = fmt.Errorf("the status of %s is %+v, want %q", key, status, reason)
		}
		return err
	})
	return found
}

func value(v string) string { return fmt.Sprintf(`{"data":{"k":%q}}`, v) }

// beat is the interval of canaries in tests.
const beat = 300 * time.Millisecond

func use(js jetstream.JetStream) func() (jetstream.JetStream, error) {
	return func() (jetstream.JetStream, error) { return js, nil }
}

type anchor = nats.Memory[bucket.Identity]
