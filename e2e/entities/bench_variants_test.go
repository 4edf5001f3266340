// SPDX-License-Identifier: Apache-2.0

package entities_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

// variant is one way to keep the primaries.
type variant interface {
	// fill writes all primaries.
	fill(f *field)
	// start starts the controllers, which end with ctx.
	start(ctx context.Context, f *field, running *sync.WaitGroup)
	// put changes a primary.
	put(f *field, key, text string)
	// reported returns an error unless all parts of the status are written.
	reported(f *field) error
}

// inNATS has entities as primaries.
type inNATS struct {
	server *nats.Server
	kv     jetstream.KeyValue
	js     jetstream.JetStream
	status *bucket.Bucket
}

func (v *inNATS) fill(f *field) {
	v.server = nats.Start(f.b)
	_, v.js = nats.Connect(f.b, v.server.URL())
	for _, name := range []string{ordersBucket, entity.StatusBucket(ordersBucket)} {
		must(f.b, bucket.Create(f.b.Context(), v.js, bucket.Definition{Name: name}))
	}
	var err error
	v.kv, err = v.js.KeyValue(f.b.Context(), ordersBucket)
	must(f.b, err)
	for i := range f.n {
		v.put(f, key(i), "first")
	}
}

func (v *inNATS) put(f *field, key, text string) {
	must(f.b, testkit.Err(v.kv.Put(f.b.Context(), key, fmt.Appendf(nil, `{"text":%q}`, text))))
}

func (v *inNATS) start(ctx context.Context, f *field, running *sync.WaitGroup) {
	connection, err := natshub.New(natshub.Options{URL: v.server.URL()}, natshub.Environment{HubID: hubID})
	must(f.b, err)
	orders, err := connection.Follow(ordersBucket)
	must(f.b, err)
	v.status, err = connection.Follow(entity.StatusBucket(ordersBucket))
	must(f.b, err)
	store, status := entity.NewStore(orders, entity.JSON[order](nil)), entity.NewStatusStore(v.status)
	for _, r := range f.remotes {
		m := f.manager(r)
		_, err := entity.Add(store, entity.Func[order](func(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
			err := out.Apply(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: e.Key}, Data: map[string]string{"text": e.Value.Text},
			})
			return entity.Report{Ready: err == nil, Reason: "Made"}, err
		}), entity.Options{
			Name: "orders", Marks: entity.Marks{Hub: hubID, Kind: "Order"}, Manager: m, Cluster: r.name,
			Owns: []client.Object{&corev1.ConfigMap{}}, Status: status,
		})
		must(f.b, err)
		running.Go(func() { _ = m.Start(ctx) })
	}
	running.Go(func() { _ = connection.Run(ctx) })
}

func (v *inNATS) reported(f *field) error {
	for i := range f.n {
		e, _ := v.status.Get(key(i))
		if got := len(parts(e.Value)); got < len(f.remotes) {
			return fmt.Errorf("%s has %d parts", key(i), got)
		}
	}
	return nil
}

// inKubernetes has custom resources as primaries.
type inKubernetes struct{ namespace string }

func (v *inKubernetes) fill(f *field) {
	v.namespace = fleettest.Namespace(f.b, f.admin, "bench-")
	inParallel(f.n, func(i int) {
		must(f.b, f.admin.Create(f.b.Context(), &Custom{
			ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: key(i)}, Spec: order{Text: "first"},
		}))
	})
}

func (v *inKubernetes) put(f *field, key, text string) {
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"text":%q}}`, text))
	must(f.b, f.admin.Patch(f.b.Context(), &Custom{ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: key}}, patch))
}

func (v *inKubernetes) start(ctx context.Context, f *field, running *sync.WaitGroup) {
	hub, err := cluster.New(f.hub, func(o *cluster.Options) {
		o.Scheme, o.Logger = f.scheme, logr.Discard()
		o.Cache.DefaultNamespaces = map[string]cache.Config{v.namespace: {}}
	})
	must(f.b, err)
	for _, r := range f.remotes {
		m := f.manager(r)
		yes := true
		toSame := func(_ context.Context, obj *corev1.ConfigMap) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: v.namespace, Name: obj.Name}}}
		}
		must(f.b, ctrl.NewControllerManagedBy(m).Named("customs").
			WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: &yes}).
			WatchesRawSource(source.Kind(hub.GetCache(), &Custom{}, &handler.TypedEnqueueRequestForObject[*Custom]{})).
			WatchesRawSource(source.Kind(m.GetCache(), &corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(toSame))).
			Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, v.reconcile(ctx, hub.GetClient(), m.GetClient(), r, request.Name)
			})))
		running.Go(func() { _ = m.Start(ctx) })
	}
	running.Go(func() { _ = hub.Start(ctx) })
}

// reconcile makes the ConfigMap of a custom resource, and its part of the status, each only if it differs.
func (v *inKubernetes) reconcile(ctx context.Context, hub, remote client.Client, r *benchRemote, name string) error {
	var primary Custom
	if err := hub.Get(ctx, client.ObjectKey{Namespace: v.namespace, Name: name}, &primary); err != nil {
		return client.IgnoreNotFound(err)
	}
	var found corev1.ConfigMap
	err := remote.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, &found)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil || found.Data["text"] != primary.Spec.Text {
		wanted := corev1ac.ConfigMap(name, r.namespace).WithData(map[string]string{"text": primary.Spec.Text}).
			WithLabels(map[string]string{"owner": name}).WithAnnotations(map[string]string{"owner": v.namespace + "/" + name})
		if err := remote.Apply(ctx, wanted, client.FieldOwner("customs"), client.ForceOwnership); err != nil {
			return err
		}
	}
	if part := primary.Status.Clusters[r.name]; part.Ready && uint64(part.Revision) == uint64(primary.Generation) {
		return nil
	}
	status := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": v.namespace, "name": name},
		"status": map[string]any{"clusters": map[string]any{r.name: map[string]any{
			"ready": true, "reason": "Made", "revision": primary.Generation, "since": time.Now().UTC().Format(time.RFC3339),
		}}},
	}}
	status.SetGroupVersionKind(customVersion.WithKind("Custom"))
	return hub.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(status), client.FieldOwner("customs-"+r.name), client.ForceOwnership)
}

func (v *inKubernetes) reported(f *field) error {
	var all CustomList
	if err := f.admin.List(f.b.Context(), &all, client.InNamespace(v.namespace)); err != nil {
		return err
	}
	for _, c := range all.Items {
		if len(c.Status.Clusters) < len(f.remotes) {
			return fmt.Errorf("%s has %d parts", c.Name, len(c.Status.Clusters))
		}
	}
	return nil
}

func inParallel(n int, f func(int)) {
	var running sync.WaitGroup
	next := make(chan int)
	for range workers {
		running.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	running.Wait()
}

func parts(value []byte) map[string]entity.Part {
	return entity.DecodeStatus(value).Clusters
}
