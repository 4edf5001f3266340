// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

var errBroken = errors.New("it is broken")

// D2. The names of controllers are unique in a process and never freed: the ancestor could not register a second
// cluster, nor the first cluster again, nor retry a failed start.
func TestAncestor_SecondClusterFailsOnControllerNames(t *testing.T) {
	t.Parallel()
	var s scripts
	metrics := prometheus.NewRegistry()
	r := newRegistry(t, func(o *registry.Options) {
		s.toRegistry(o)
		o.Metrics = metrics
	})
	first, second, retried := registry.ClusterName(unique("first")), registry.ClusterName(unique("second")), registry.ClusterName(unique("retried"))
	spawn(t, r, first, admin(t, one))
	aside := newBystander(t, r, one, first)
	spawn(t, r, second, admin(t, two))
	expectWorks(t, two, second)

	must(t, r.Stop(t.Context(), second))
	spawn(t, r, second, admin(t, two))
	expectWorks(t, two, second)

	var starts atomic.Int64
	s.set(t, retried, script{start: func(context.Context) error { // At this point the controllers exist.
		if starts.Add(1) == 1 {
			return errBroken
		}
		return nil
	}})
	spawn(t, r, retried, admin(t, one))
	expectWorks(t, one, retried)
	if got := epochOf(t, r, retried); starts.Load() != 2 {
		t.Errorf("got epoch %d after %d starts, want a failed start and a successful start", got, starts.Load())
	}
	aside.expectUnaware()
	for _, name := range []registry.ClusterName{first, second, retried} {
		eventually(t, func() error { // The marker counts a mark after the response to its write.
			if marksOf(t, metrics, name) == 0 {
				return fmt.Errorf("no metric counts the marks of the controller in %s", name)
			}
			return nil
		})
	}
}

// marksOf returns the number of marks that the marker of a remote counted.
func marksOf(t *testing.T, metrics prometheus.Gatherer, name registry.ClusterName) float64 {
	t.Helper()
	families, err := metrics.Gather()
	must(t, err)
	for _, family := range families {
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				if family.GetName() == "regression_marks_total" && label.GetName() == "cluster" && label.GetValue() == string(name) {
					return metric.Counter.GetValue()
				}
			}
		}
	}
	return 0
}

// D4. The ancestor held one lock while it contacted a cluster, while it stopped a cluster and while a callback ran, so
// that a slow cluster blocked all others; and the stop of a manager that had ended by itself waited forever.
func TestAncestor_OneLockForEverybody(t *testing.T) {
	t.Parallel()
	var s scripts
	r := newRegistry(t, func(o *registry.Options) {
		s.toRegistry(o)
		o.Limits.StopTimeout = patience
	})
	aside := spawnBystander(t, r, two)
	others := func(t *testing.T) {
		t.Helper()
		name := registry.ClusterName(unique("other"))
		quickly(t, "Spawn of another remote", func() error { return r.Spawn(t.Context(), name, admin(t, one)) })
		quickly(t, "WithClient of another remote", func() error {
			return r.WithClient(t.Context(), name, func(context.Context, client.Client) error { return nil })
		})
		quickly(t, "List and Info", func() error {
			if _, ok := r.Status(name); !ok || len(r.List()) < 2 {
				return errors.New("a remote is missing")
			}
			return nil
		})
		quickly(t, "Stop of another remote", func() error { return r.Stop(t.Context(), name) })
	}
	t.Run("a remote that is contacted and does not answer", func(t *testing.T) {
		p, data := proxyTo(t, one)
		set(t, p, fault.NeverRead())
		name, config := registry.ClusterName(unique("slow")), configFor(t, data)
		config.Probe = state.Probe{Period: patience, Timeout: patience}
		ctx, cancel := context.WithCancel(t.Context())
		spawned := make(chan error, 1)
		go func() { spawned <- r.Spawn(ctx, name, config) }()
		eventually(t, func() error {
			if p.Stats().Accepted == 0 {
				return errors.New("it is not contacted yet")
			}
			return nil
		})
		others(t)
		cancel()
		if err := <-spawned; !errors.Is(err, context.Canceled) {
			t.Errorf("Spawn returns %v, want Canceled", err)
		}
		quickly(t, "Stop", func() error { return r.Stop(t.Context(), name) })
	})
	t.Run("a remote whose stop hangs", func(t *testing.T) {
		blocked := newBlocker(t)
		name := registry.ClusterName(unique("hanging"))
		s.set(t, name, script{stop: func(context.Context) error {
			blocked.block()
			return nil
		}})
		spawn(t, r, name, admin(t, one))
		stopped := make(chan error, 1)
		go func() { stopped <- r.Stop(t.Context(), name) }()
		blocked.await(t)
		others(t)
		blocked.release()
		if err := <-stopped; err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	t.Run("a callback that does not return", func(t *testing.T) {
		blocked := newBlocker(t)
		name := registry.ClusterName(unique("held"))
		spawn(t, r, name, admin(t, one))
		returned := make(chan error, 1)
		go func() {
			returned <- r.WithClient(t.Context(), name, func(context.Context, client.Client) error {
				blocked.block()
				return nil
			})
		}()
		blocked.await(t)
		others(t)
		blocked.release()
		must(t, <-returned)
	})
	t.Run("a remote whose app has ended by itself", func(t *testing.T) {
		name := registry.ClusterName(unique("ended"))
		s.set(t, name, script{run: func(context.Context) error { return errBroken }})
		must(t, r.Ensure(name, admin(t, one)))
		eventually(t, func() error {
			if info, _ := r.Status(name); info.App.Reason != state.ReasonModuleFailed {
				return fmt.Errorf("the remote is %s/%s, want an app that failed", info.State, info.Reason)
			}
			return nil
		})
		others(t)
		quickly(t, "Stop", func() error { return r.Stop(t.Context(), name) })
	})
	aside.expectUnaware()
}

// D12. The ancestor swallowed errors of a reconcile, so that it did not retry; it passed a nil object to Get, which
// panicked; and one disabled kind disabled the kinds after it.
func TestAncestor_ErrorsAreSwallowed(t *testing.T) {
	t.Parallel()
	t.Run("errors and panics of a reconcile", func(t *testing.T) {
		t.Parallel()
		var s scripts
		r := newRegistry(t, s.toRegistry)
		name := registry.ClusterName(unique("erring"))
		var calls atomic.Int64
		s.set(t, name, script{build: func(p registry.Remote) error {
			return registry.ControllerManagedBy(p.Manager).Named("erring").For(&corev1.ConfigMap{}).
				Complete(reconcile.Func(func(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
					if q.Name != string(name) {
						return ctrl.Result{}, nil
					}
					switch calls.Add(1) {
					case 1, 2, 3:
						return ctrl.Result{}, errBroken
					case 4, 5:
						var nothing client.Object
						return ctrl.Result{}, p.Client.Get(ctx, q.NamespacedName, nothing)
					}
					return ctrl.Result{}, nil
				}))
		}})
		spawn(t, r, name, admin(t, one))
		aside := newBystander(t, r, one, name) // the other module of the same app
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: string(name), Namespace: metav1.NamespaceDefault}}
		must(t, clientFor(t, clusterOf(t, one)).Create(t.Context(), object))
		eventually(t, func() error {
			if n := calls.Load(); n < 6 {
				return fmt.Errorf("got %d reconciles, want 6", n)
			}
			return nil
		})
		aside.expectUnaware()
	})
	t.Run("a panic of a callback", func(t *testing.T) {
		t.Parallel()
		r := newRegistry(t, nil)
		name := registry.ClusterName(unique("panicking"))
		spawn(t, r, name, admin(t, one))
		aside := newBystander(t, r, one, name)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of a callback does not reach its caller")
				}
			}()
			_ = r.WithClient(t.Context(), name, func(context.Context, client.Client) error { panic(errBroken) })
		}()
		aside.expectUnaware()
		quickly(t, "Stop", func() error { return r.Stop(t.Context(), name) })
	})
	t.Run("a missing kind, and an unknown module", func(t *testing.T) {
		t.Parallel()
		widget := &unstructured.Unstructured{}
		widget.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
		lacking := registry.NewModule("lacking", registry.ModuleOptions{Remote: fx.Invoke(func(mgr ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).For(widget).Named("lacking").Complete(reconcile.Func(
				func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
		})})
		r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{lacking, marker()} })
		name, config := registry.ClusterName(unique("lacking")), admin(t, one)
		config.Modules = []string{"disabled", "lacking", markerName}
		must(t, r.Ensure(name, config))
		expectState(t, r, name, state.StateStarting, state.ReasonWaiting)
		expectWorks(t, one, name)
	})
}

// D16. A client of the ancestor returned one of the last hundred objects that it had written if the object's
// resourceVersion was higher as a number than the version of the cache. It ignored patches and deletions, and after a
// restore of the remote, which lowers the numbers, it continued to return deleted objects.
func TestAncestor_CacheOfWritesOutlivesWhatWasWritten(t *testing.T) {
	t.Parallel()
	t.Run("objects that are patched, deleted and created again", func(t *testing.T) {
		t.Parallel()
		r := newRegistry(t, nil)
		name := registry.ClusterName(unique("written"))
		spawn(t, r, name, admin(t, one))
		for range 10 {
			must(t, r.WithCluster(t.Context(), name, func(ctx context.Context, remote cluster.Cluster) error {
				return liveAndDie(ctx, remote)
			}))
		}
	})
	t.Run("a remote that was rebuilt", func(t *testing.T) {
		t.Parallel()
		r := newRegistry(t, nil)
		name := registry.ClusterName(unique("rebuilt"))
		key := client.ObjectKey{Name: string(name), Namespace: metav1.NamespaceDefault}
		// All clusters count in one etcd: a later write has a higher number.
		for _, where := range []string{two, one} {
			must(t, clientFor(t, clusterOf(t, where)).Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}, Data: map[string]string{"in": where},
			}))
		}
		config := admin(t, one)
		spawn(t, r, name, config)
		in := func() (where string, err error) {
			var found corev1.ConfigMap
			err = r.WithClient(t.Context(), name, func(ctx context.Context, remote client.Client) error {
				return remote.Get(ctx, key, &found)
			})
			return found.Data["in"], err
		}
		must(t, r.WithClient(t.Context(), name, func(ctx context.Context, remote client.Client) error {
			var found corev1.ConfigMap
			if err := remote.Get(ctx, key, &found); err != nil {
				return err
			}
			found.Data["written"] = "yes"
			return remote.Update(ctx, &found)
		}))
		info, _ := r.Status(name)
		rebuilt := admin(t, two)
		rebuilt.Identity = state.Identity{Known: info.ID, Accepted: idOf(t, two)}
		must(t, r.Ensure(name, rebuilt))
		eventually(t, func() error {
			where, err := in()
			if err != nil || where != two {
				return fmt.Errorf("got the object of cluster %q, want the object of the rebuilt remote: %w", where, err)
			}
			return nil
		})
		consistently(t, 300*time.Millisecond, func() error {
			if where, err := in(); err != nil || where != two {
				return fmt.Errorf("got the object of cluster %q again, want the object of the rebuilt remote: %w", where, err)
			}
			return nil
		})
	})
}

// liveAndDie creates, updates, patches, deletes and recreates an object. After each step but the first it waits until a
// cached read shows the result.
func liveAndDie(ctx context.Context, remote cluster.Cluster) error {
	cached, live := remote.GetClient(), remote.GetAPIReader()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "alive-", Namespace: metav1.NamespaceDefault}}
	if err := cached.Create(ctx, object); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(object)
	object.Data = map[string]string{"is": "updated"}
	if err := cached.Update(ctx, object); err != nil {
		return err
	}
	if err := awaitRead(ctx, cached, key, object.UID, "updated"); err != nil {
		return err
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"is":"patched"}}`))
	if err := cached.Patch(ctx, object, patch); err != nil {
		return err
	}
	if err := awaitRead(ctx, cached, key, object.UID, "patched"); err != nil {
		return err
	}
	if err := cached.Delete(ctx, object); err != nil {
		return err
	}
	if err := live.Get(ctx, key, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("a live read after the deletion returns %w, want NotFound", err)
	}
	if err := awaitRead(ctx, cached, key, "", ""); err != nil {
		return err
	}
	again := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}, Data: map[string]string{"is": "anew"},
	}
	if err := cached.Create(ctx, again); err != nil {
		return err
	}
	if err := awaitRead(ctx, cached, key, again.UID, "anew"); err != nil {
		return err
	}
	return cached.Delete(ctx, again)
}

// idOf returns the identity of a cluster.
func idOf(t *testing.T, name string) string {
	t.Helper()
	var system corev1.Namespace
	must(t, clientFor(t, clusterOf(t, name)).Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, &system))
	return string(system.UID)
}
