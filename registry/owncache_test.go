// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"go.uber.org/fx"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// diary records events in the epochs of a module, in their order.
type diary struct {
	mu    sync.Mutex
	notes []string
}

func (d *diary) note(what string, epoch int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, fmt.Sprint(what, " ", epoch))
}

func (d *diary) noted(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.notes, what)
}

// has waits until all of the notes exist.
func (d *diary) has(t *testing.T, notes ...string) {
	t.Helper()
	eventually(t, func() error {
		for _, one := range notes {
			if !d.noted(one) {
				return fmt.Errorf("%q has not happened", one)
			}
		}
		return nil
	})
}

// expectOrder fails the test unless all of the notes exist, in this order.
func (d *diary) expectOrder(t *testing.T, notes ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	last := -1
	for _, one := range notes {
		i := slices.Index(d.notes, one)
		if i <= last {
			t.Errorf("want the order %q, got %q", notes, d.notes)
		}
		last = i
	}
}

// notedCache is a cache that records its start.
type notedCache struct {
	cache.Cache
	note func(what string)
}

func (c *notedCache) Start(ctx context.Context) error {
	c.note("cache")
	return c.Cache.Start(ctx)
}

// helper is a runnable that needs no leader election.
type helper struct {
	note    func(what string)
	running chan struct{}
}

func (h *helper) Start(ctx context.Context) error {
	h.note("helper")
	close(h.running)
	<-ctx.Done()
	return nil
}

func (*helper) NeedLeaderElection() bool { return false }

// addOwn adds a filtered cache to a manager, a runnable without leader election, a runnable with leader election, and a
// controller that gets its objects from the cache and waits for the runnable without leader election.
func addOwn(m ctrl.Manager, note func(what string), seen func(name string)) error {
	own, err := cache.New(m.GetConfig(), cache.Options{
		Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Label: labels.SelectorFromSet(labels.Set{"own": "yes"})},
		},
	})
	if err != nil {
		return err
	}
	early := &helper{note: note, running: make(chan struct{})}
	late := manager.RunnableFunc(func(ctx context.Context) error {
		note("work")
		<-ctx.Done()
		note("end")
		return nil
	})
	for _, one := range []manager.Runnable{&notedCache{Cache: own, note: note}, early, late} {
		if err := m.Add(one); err != nil {
			return err
		}
	}
	waits := source.Func(func(ctx context.Context, _ workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		select {
		case <-early.running:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return ctrl.NewControllerManagedBy(m).Named("own").WatchesRawSource(waits).
		WatchesRawSource(source.Kind(own, &corev1.ConfigMap{}, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{})).
		Complete(reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			var one corev1.ConfigMap
			if err := own.Get(ctx, r.NamespacedName, &one); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			seen(one.Name)
			return ctrl.Result{}, nil
		}))
}

// A cache that a module adds to its manager, and runnables that need no leader election, start while the second app of
// a hand-over warms up: before the controllers of the first app end. So they do not prolong the hand-over.
func TestOwnCache_HandOver(t *testing.T) {
	t.Parallel()
	var d diary
	module := registry.NewModule("own", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return addOwn(p.Manager, func(what string) { d.note(what, p.Status.Epoch) },
			func(name string) { d.note(name, p.Status.Epoch) })
	})})
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{module} })
	c, here := remote(t, "one")
	spawn(t, r, "moving", here)
	first := newOwn(t, c, true)
	d.has(t, fmt.Sprint(first, " 1"), "work 1")

	there := byName(t, c)
	must(t, r.Ensure("moving", there))
	d.has(t, fmt.Sprint(first, " 2"), "work 2", "end 1")
	d.expectOrder(t, "work 1", "cache 2", "end 1", "work 2")
	d.expectOrder(t, "work 1", "helper 2", "end 1")
	if info := expectState(t, r, "moving", state.StateReady, state.ReasonReady); info.Server != there.Endpoint.Server {
		t.Errorf("got server %s, want the new server", info.Server)
	}
	other, second := newOwn(t, c, false), newOwn(t, c, true)
	d.has(t, fmt.Sprint(second, " 2"))
	if d.noted(fmt.Sprint(other, " 2")) {
		t.Error("the cache holds objects that it does not select")
	}
}

// newOwn creates a ConfigMap, which the cache of addOwn selects if selected is true.
func newOwn(t *testing.T, on *fleet.Cluster, selected bool) (name string) {
	t.Helper()
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "own-", Namespace: metav1.NamespaceDefault}}
	if selected {
		one.Labels = map[string]string{"own": "yes"}
	}
	must(t, clientFor(t, on).Create(t.Context(), one))
	return one.Name
}

// A hub part with a cache of its own is Running on a hub that does not lead, and starts its work when the hub leads.
func TestOwnCache_HubPartOnStandby(t *testing.T) {
	t.Parallel()
	const lease = "own-cache-standby"
	c := fleettest.Cluster(t, "hub")
	direct := clientFor(t, c)
	other, long, now := "another-hub", int32(3600), metav1.NowMicro()
	held := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: lease, Namespace: metav1.NamespaceDefault},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &other, LeaseDurationSeconds: &long, AcquireTime: &now, RenewTime: &now},
	}
	must(t, direct.Create(t.Context(), held))
	t.Cleanup(func() { _ = direct.Delete(context.WithoutCancel(t.Context()), held) })

	var d diary
	mgr := hubManager(t, c.Config(), func(o *ctrl.Options) {
		o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, lease, metav1.NamespaceDefault
		o.LeaderElectionReleaseOnCancel = true
	})
	r, run, err := hubAppOf(t, mgr, registry.Options{}, registry.NewModule("own", registry.ModuleOptions{
		HubRuns: registry.WithRemotes,
		Hub: fx.Invoke(func(m ctrl.Manager) error {
			return addOwn(m, func(what string) { d.note(what, 0) }, func(name string) { d.note(name, 0) })
		}),
	}).Option())
	must(t, err)
	run()
	expectPart(t, r, "own", state.ModuleRunning, "")
	d.has(t, "cache 0", "helper 0")
	if d.noted("work 0") {
		t.Error("a runnable that needs leader election runs on a standby")
	}
	must(t, direct.Delete(t.Context(), held))
	d.has(t, "work 0", newOwn(t, c, true)+" 0")
}

// A cluster that a module has added and whose cache does not sync prevents neither the start of the other modules nor
// the end of the app.
func TestOwnCluster_Silent(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	var counted counter
	module := registry.NewModule("own", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		other, err := cluster.New(&rest.Config{Host: "http://" + silent.Addr().String()}, func(o *cluster.Options) {
			o.Scheme, o.MapperProvider = p.Scheme, func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return p.RESTMapper, nil }
		})
		if err != nil {
			return err
		}
		_, err = other.GetCache().GetInformer(t.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		return errors.Join(err, p.Manager.Add(other))
	})})
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{module, counted.module()} })
	c, config := remote(t, "one")
	spawn(t, r, "beside-a-silent-cluster", config)
	expectSeenBy(t, c, newConfigMap(t, c), "beside-a-silent-cluster")
}
