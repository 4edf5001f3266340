// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// objectsOf creates so many ConfigMaps in a new namespace of a cluster, for no module.
func objectsOf(t *testing.T, c client.Client, objects int) string {
	t.Helper()
	namespace := fleettest.Namespace(t, c, "held-")
	for i := range objects {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("o-%03d", i)}}
		must(t, c.Create(t.Context(), o))
	}
	return namespace
}

func left(t *testing.T, c client.Client, namespace string) int {
	t.Helper()
	var all corev1.ConfigMapList
	must(t, c.List(t.Context(), &all, client.InNamespace(namespace)))
	return len(all.Items)
}

func configMap(namespace string, i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("o-%03d", i)}}
}

// appOf registers a remote whose app runs a module that does nothing, and returns what the module gets.
func appOf(t *testing.T, change func(*registry.Options)) (*registry.Registry, registry.Remote, client.Client) {
	t.Helper()
	module, apps := handing("pruner")
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{module}
		if change != nil {
			change(o)
		}
	})
	c, config := remote(t, "one")
	config.Client.Timeout = patience // A request that got no response may have deleted, and counts.
	spawn(t, r, "one", config)
	return r, <-apps, clientFor(t, c)
}

// A module that deletes everything loses 20 objects, whatever client it uses for the next.
func TestDeletes_EveryClient(t *testing.T) {
	t.Parallel()
	r, app, outside := appOf(t, nil)
	namespace := objectsOf(t, outside, 40)
	for i := range 20 {
		if err := app.Client.Delete(t.Context(), configMap(namespace, i)); err != nil {
			t.Fatalf("delete %d: %v", i, err)
		}
	}
	own, err := client.New(app.Config, client.Options{Scheme: app.Scheme, Mapper: app.RESTMapper})
	must(t, err)
	typed := kubernetes.NewForConfigOrDie(app.Config)
	anything := dynamic.NewForConfigOrDie(app.Config).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	ctx, next := t.Context(), configMap(namespace, 30)
	for who, try := range map[string]func() error{
		"client":  func() error { return app.Client.Delete(ctx, next) },
		"manager": func() error { return app.Manager.GetClient().Delete(ctx, next) },
		"config":  func() error { return own.Delete(ctx, next) },
		"clientset": func() error {
			return typed.CoreV1().ConfigMaps(namespace).Delete(ctx, next.Name, metav1.DeleteOptions{})
		},
		"dynamic client": func() error { return anything.Namespace(namespace).Delete(ctx, next.Name, metav1.DeleteOptions{}) },
		"raw request": func() error {
			return typed.CoreV1().RESTClient().Delete().AbsPath("/api/v1/namespaces/" + namespace + "/configmaps/" + next.Name).Do(ctx).Error()
		},
		"collection": func() error { return app.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(namespace)) },
		"collection of a clientset": func() error {
			return typed.CoreV1().ConfigMaps(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
	} {
		var held *deletes.HeldError
		if err := try(); !errors.Is(err, deletes.ErrHeld) || !errors.As(err, &held) || held.Reason != deletes.LimitExceeded || held.ID == "" {
			t.Errorf("%s: %v", who, err)
		}
	}
	if got := left(t, outside, namespace); got != 20 {
		t.Errorf("%d objects are left, want 20", got)
	}
	if err := app.Client.Delete(ctx, next, client.DryRunAll); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if err := app.Client.Delete(ctx, configMap(namespace, 0)); !apierrors.IsNotFound(err) {
		t.Errorf("the delete of an object that is gone: %v, want that it does not exist", err)
	}
	if err := app.Client.Create(ctx, configMap(namespace, 999)); err != nil {
		t.Errorf("a create: %v", err)
	}
	holds := r.HeldDeletes()
	if len(holds) != 1 || holds[0].Module != "pruner" || holds[0].Cluster != "one" || holds[0].Deleted != 20 || holds[0].Fleet {
		t.Errorf("the holds are %+v", holds)
	}
}

// Leases of the hub's own code, the client for the hub and evictions have limits, too, each its own.
func TestDeletes_LeaseHubAndEviction(t *testing.T) {
	t.Parallel()
	r, app, outside := appOf(t, nil)
	namespace := objectsOf(t, outside, 22)
	within := func(remove func(i int) error) (deleted int) {
		for i := range 22 {
			err := remove(i)
			if err == nil {
				deleted++
			} else if !errors.Is(err, deletes.ErrHeld) {
				t.Fatal(err)
			}
		}
		return deleted
	}
	if got := within(func(i int) error {
		return r.WithClient(t.Context(), "one", func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, configMap(namespace, i))
		})
	}); got != 20 {
		t.Errorf("a lease deleted %d objects, want 20", got)
	}
	hub := clientFor(t, fleettest.Cluster(t, "hub"))
	inHub := objectsOf(t, hub, 22)
	if got := within(func(i int) error { return app.HubClient.Delete(t.Context(), configMap(inHub, i)) }); got != 20 {
		t.Errorf("the client for the hub deleted %d objects, want 20", got)
	}
	pods := objectsOf(t, outside, 0)
	if got := within(func(i int) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: pods, Name: fmt.Sprintf("p-%d", i)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		must(t, outside.Create(t.Context(), pod))
		return app.Client.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{})
	}); got != 20 {
		t.Errorf("%d evictions, want 20", got)
	}
}

// Deletes with evidence are not limited, and are refused if the evidence does not hold.
// Promise: deletes with evidence are not limited.
func TestDeletes_OnPurpose(t *testing.T) {
	t.Parallel()
	_, app, outside := appOf(t, nil)
	namespace := objectsOf(t, outside, 41)
	parent := configMap("x", 1)
	for i, e := range []deletes.Evidence{
		deletes.Terminating(parent), deletes.Terminating(nil), deletes.Tombstone("", "1"), deletes.Confirmed(""), {},
	} {
		err := app.Client.Delete(deletes.OnPurpose(t.Context(), e), configMap(namespace, 40))
		if held, ok := errors.AsType[*deletes.HeldError](err); !ok || held.Reason != deletes.NoEvidence {
			t.Errorf("evidence %d: %v", i, err)
		}
	}
	parent = terminating(t, outside, namespace)
	ctx := deletes.OnPurpose(t.Context(), deletes.Terminating(parent))
	for i := range 40 {
		if err := app.Client.Delete(ctx, configMap(namespace, i)); err != nil {
			t.Fatalf("delete %d: %v", i, err)
		}
	}
	if err := app.Client.Delete(t.Context(), configMap(namespace, 40)); err != nil {
		t.Errorf("declared deletes count: %v", err)
	}
}

// kept creates a ConfigMap in a namespace, with a finalizer that keeps it when it is deleted.
func kept(t *testing.T, c client.Client, namespace string) *corev1.ConfigMap {
	t.Helper()
	parent := configMap(namespace, 999)
	parent.Finalizers = []string{"example.com/keep"}
	must(t, c.Create(t.Context(), parent))
	return parent
}

// terminating creates a ConfigMap in a namespace, and deletes it. A finalizer keeps it.
func terminating(t *testing.T, c client.Client, namespace string) *corev1.ConfigMap {
	t.Helper()
	parent := kept(t, c, namespace)
	must(t, errors.Join(c.Delete(t.Context(), parent), c.Get(t.Context(), client.ObjectKeyFromObject(parent), parent)))
	return parent
}

// A parent that is being deleted with its Namespace, in the remote or in the hub, is no evidence: the module loses 20 objects, and the
// hold says why. Neither is one that no API server has.
func TestDeletes_ParentsOfANamespace(t *testing.T) {
	t.Parallel()
	r, app, outside := appOf(t, nil)
	hub := clientFor(t, fleettest.Cluster(t, "hub"))
	children := objectsOf(t, outside, 150)
	parents := objectsOf(t, hub, 0)
	parent := kept(t, hub, parents)
	must(t, hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: parents}})) // Before its parents go.
	must(t, errors.Join(hub.Delete(t.Context(), parent), hub.Get(t.Context(), client.ObjectKeyFromObject(parent), parent)))
	gone := configMap(parents, 998)
	gone.UID, gone.DeletionTimestamp = "gone", parent.DeletionTimestamp
	for _, one := range []*corev1.ConfigMap{parent, gone} {
		ctx := deletes.OnPurpose(t.Context(), deletes.Terminating(one))
		for i := range 150 {
			if err := client.IgnoreNotFound(app.Client.Delete(ctx, configMap(children, i))); err != nil && !deletes.IsHeld(err) {
				t.Fatal(err)
			}
		}
		if got := left(t, outside, children); got != 130 {
			t.Errorf("%d objects are left, want 130", got)
		}
	}
	info, _ := r.Status("one")
	if !strings.Contains(info.DeletesHeld.Message, "Of a parent: the Namespace ") {
		t.Errorf("the condition says %q", info.DeletesHeld.Message)
	}
}

// A cleanup step deletes any number of objects in the remote that is removed. In the hub it loses as many as any other code: the end of
// one remote says nothing about objects there.
func TestDeletes_CleanupInTheHub(t *testing.T) {
	t.Parallel()
	hub, outside := clientFor(t, fleettest.Cluster(t, "hub")), clientFor(t, fleettest.Cluster(t, "one"))
	inHub, inRemote := objectsOf(t, hub, 150), objectsOf(t, outside, 30)
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{registry.NewModule("tidy", registry.ModuleOptions{
			Remote: fx.Provide(registry.AsCleanup(func(p registry.Remote) registry.CleanupStep {
				return registry.CleanupStep{Name: "tidy/all", Run: func(ctx context.Context) error {
					for i := range 150 {
						if err := p.HubClient.Delete(ctx, configMap(inHub, i)); err != nil && !deletes.IsHeld(err) {
							return err
						}
					}
					for i := range 30 {
						if err := p.Client.Delete(ctx, configMap(inRemote, i)); err != nil {
							return err
						}
					}
					return nil
				}}
			})),
		})}
	})
	_, config := remote(t, "one")
	spawn(t, r, "one", config)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.Remove(ctx, "one"); err != nil {
		t.Error(err)
	}
	testkit.Equal(t, left(t, hub, inHub), 130, "objects are left in the hub")
	testkit.Equal(t, left(t, outside, inRemote), 0, "objects are left in the remote")
}

// The delete of a collection deletes the objects that are not being deleted already, wherever they are in it, and these alone
// count, however often it is repeated while finalizers keep the others.
func TestDeletes_CollectionOfTerminating(t *testing.T) {
	t.Parallel()
	r, app, outside := appOf(t, nil)
	namespace := objectsOf(t, outside, 0)
	create := func(from, to int, finalizers ...string) {
		t.Helper()
		for i := from; i < to; i++ {
			o := configMap(namespace, i)
			o.Finalizers = finalizers
			must(t, outside.Create(t.Context(), o))
		}
	}
	all := func() error {
		return app.Client.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(namespace))
	}
	create(10, 40, "example.com/keep")
	must(t, outside.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(namespace)))
	create(70, 80)
	for range 5 {
		must(t, all())
	}
	if got := left(t, outside, namespace); got != 30 {
		t.Errorf("%d objects are left, want the 30 with a finalizer", got)
	}
	create(0, 5)
	create(80, 86)
	testkit.ErrorIs(t, all(), deletes.ErrHeld, "the delete of 11 more than 10 objects")
	if holds := r.HeldDeletes(); len(holds) != 1 || holds[0].Deleted != 10 {
		t.Errorf("the holds are %+v, want one after 10 objects", holds)
	}
}

// A delete of an object that was read does not delete its successor of the same name.
func TestDeletes_UID(t *testing.T) {
	t.Parallel()
	_, app, outside := appOf(t, nil)
	namespace := objectsOf(t, outside, 1)
	read := configMap(namespace, 0)
	must(t, app.APIReader.Get(t.Context(), client.ObjectKeyFromObject(read), read))
	must(t, errors.Join(outside.Delete(t.Context(), configMap(namespace, 0)), outside.Create(t.Context(), configMap(namespace, 0))))
	if err := app.Client.Delete(t.Context(), read); !apierrors.IsConflict(err) {
		t.Errorf("the delete of the object that was read: %v, want a conflict", err)
	}
	if got := left(t, outside, namespace); got != 1 {
		t.Errorf("%d objects are left, want 1", got)
	}
}

// A reconciler that deletes an object which was replaced is called again, and its log has no error.
func TestDeletes_ReplacedObject(t *testing.T) {
	t.Parallel()
	var outside client.Client
	var calls, failures atomic.Int32
	ready := make(chan struct{})
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{registry.NewModule("cleaner", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
			return registry.ControllerManagedBy(p.Manager).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
				func(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
					if !strings.HasPrefix(q.Namespace, "held-") {
						return reconcile.Result{}, nil
					}
					<-ready
					var read corev1.ConfigMap
					if err := p.APIReader.Get(ctx, q.NamespacedName, &read); err != nil {
						return reconcile.Result{}, client.IgnoreNotFound(err)
					}
					if calls.Add(1) == 1 {
						if err := errors.Join(outside.Delete(ctx, read.DeepCopy()), outside.Create(ctx, configMap(read.Namespace, 0))); err != nil {
							return reconcile.Result{}, err
						}
					}
					return reconcile.Result{}, p.Client.Delete(ctx, &read)
				}))
		})})}
		o.Log = funcr.New(func(_, line string) {
			if strings.Contains(line, "Reconciler error") {
				failures.Add(1)
				t.Log(line)
			}
		}, funcr.Options{})
	})
	c, config := remote(t, "two") // Its module deletes what the other tests create.
	outside = clientFor(t, c)
	close(ready)
	spawn(t, r, "one", config)
	namespace := objectsOf(t, outside, 1)
	eventually(t, func() error {
		if got := left(t, outside, namespace); got > 0 || calls.Load() < 2 {
			return fmt.Errorf("%d objects are left after %d calls", got, calls.Load())
		}
		return nil
	})
	if failures.Load() > 0 {
		t.Errorf("%d errors in the log", failures.Load())
	}
}
