// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/rand"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/state"
)

// watchesConfigMaps are the HubRules of a module that watches ConfigMaps of the hub.
var watchesConfigMaps = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
}

// route is the label that routes the objects of the tests.
const route = "test.clusterfx.dev/to"

func objectsFor(test string) hubobjects.Selection {
	return hubobjects.Selection{
		Object: &corev1.ConfigMap{}, Labels: labels.SelectorFromSet(labels.Set{"of": test}), Route: hubobjects.ByLabel(route),
	}
}

// copier copies the ConfigMaps of the hub that belong to its remote into a namespace of the remote.
type copier struct {
	test string
	hub  *hubobjects.Objects
	into string
	to   client.Client
}

func (c copier) module() registry.Module {
	return registry.NewModule("copier", registry.ModuleOptions{HubRules: watchesConfigMaps, Remote: fx.Invoke(c.setUp)})
}

func (c copier) setUp(p registry.Remote) (err error) {
	if c.hub, err = p.HubObjects.Watch(objectsFor(c.test), string(p.Name)); err != nil {
		return err
	}
	c.into, c.to = c.test+"-"+string(p.Name), p.Client
	return registry.ControllerManagedBy(p.Manager).Named("copier").WatchesRawSource(c.hub.Requests()).Complete(&c)
}

func (c *copier) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var from corev1.ConfigMap
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.into, Name: r.Name}}
	err := c.hub.Get(ctx, r.NamespacedName, &from)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, c.remove(ctx, r.NamespacedName, made)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	_, err = controllerutil.CreateOrUpdate(ctx, c.to, made, func() error {
		made.Data = from.Data
		return nil
	})
	return ctrl.Result{}, err
}

// remove deletes what was made from an object of the hub that has gone.
func (c *copier) remove(ctx context.Context, key client.ObjectKey, made *corev1.ConfigMap) error {
	if gone, ok := c.hub.Deleted(key); ok {
		if kind := gone.Object.GetObjectKind().GroupVersionKind().Kind; kind != "ConfigMap" {
			return fmt.Errorf("the tombstone has the kind %q", kind)
		}
		var err error
		if ctx, err = gone.Declare(ctx); err != nil {
			return err
		}
	}
	return client.IgnoreNotFound(c.to.Delete(ctx, made))
}

// unique returns a name that no other run of a test has: all tests of a process share the clusters.
func unique(name string) string { return name + "-" + rand.String(5) }

func namespaceNamed(t *testing.T, c client.Client, name string) {
	t.Helper()
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// hubObject returns a ConfigMap of a test that belongs to a remote.
func hubObject(test string, i int, to string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("%s-%d", test, i), Labels: map[string]string{"of": test, route: to},
		},
		Data: map[string]string{"for": to},
	}
}

func expectCopies(t *testing.T, c client.Client, namespace string, want int) {
	t.Helper()
	eventually(t, func() error {
		if got := left(t, c, namespace); got != want {
			return fmt.Errorf("%d copies in %s, want %d", got, namespace, want)
		}
		return nil
	})
}

// A hub that has lost its data looks as if everything was deleted. The deletes are undeclared, so their limit holds, and
// the rest is kept until the data is back.
// Promise: the upstream API server loses its data, or is restored from an older backup: deletes stay within the limits of deletions, and nothing is left to do when it is back.
func TestHubObjects_EmptiedHub(t *testing.T) {
	t.Parallel()
	clusters := fleettest.Clusters(t, "hub", "two")
	const objects = 30
	l, test, hub := newHubLine(t), unique("emptied"), clientFor(t, clusters[0])
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{copier{test: test}.module()}
		l.use(o)
	})
	c, config := remote(t, "one")
	outside := clientFor(t, c)
	namespaceNamed(t, outside, test+"-a")
	for i := range objects {
		must(t, hub.Create(t.Context(), hubObject(test, i, "a")))
		must(t, outside.Create(t.Context(), &corev1.ConfigMap{ // The module has made it long ago.
			ObjectMeta: metav1.ObjectMeta{Namespace: test + "-a", Name: fmt.Sprintf("%s-%d", test, i)},
		}))
	}
	spawn(t, r, "a", config)
	l.lead(t, clusters[1])
	eventually(t, func() error {
		if holds := r.HeldDeletes(); len(holds) != 1 || holds[0].Module != "copier" || holds[0].Deleted != 20 {
			return fmt.Errorf("the holds are %+v", holds)
		}
		return nil
	})
	expectCopies(t, outside, test+"-a", objects-20)
	l.lead(t, clusters[0])
	expectCopies(t, outside, test+"-a", objects)
}

// While the hub does not respond, the undeclared deletes of a module that watches it are held; those of another module are not.
func TestHubObjects_StaleHub(t *testing.T) {
	t.Parallel()
	l := newHubLine(t)
	apps := make(chan registry.Remote, 2)
	give := func(p registry.Remote) { apps <- p }
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{
			registry.NewModule("watcher", registry.ModuleOptions{HubRules: watchesConfigMaps, Remote: fx.Invoke(give)}),
			registry.NewModule("other", registry.ModuleOptions{Remote: fx.Invoke(give)}),
		}
		o.Limits.StaleAfter = time.Second
		l.use(o)
	})
	_, config := remote(t, "one")
	spawn(t, r, "one", config)
	watcher, other := <-apps, <-apps
	testkit.Must(t, testkit.Err(watcher.HubObjects.Watch(objectsFor("stale"), "a")))
	try := func(p registry.Remote) error {
		return client.IgnoreNotFound(p.Client.Delete(t.Context(), configMap("default", 404)))
	}
	expectHeld := func(want bool) {
		t.Helper()
		eventually(t, func() error { // client-go retries after up to a minute.
			var held *deletes.HeldError
			err := try(watcher)
			if got := errors.As(err, &held) && held.Reason == deletes.SourceStale; got != want {
				return fmt.Errorf("held: %t, want %t (%w)", got, want, err)
			}
			return nil
		})
	}
	expectHeld(false)
	l.lead(t, nil)
	expectHeld(true)
	if err := try(other); err != nil {
		t.Errorf("the delete of another module: %v", err)
	}
	if err := watcher.Client.Delete(deletes.OnPurpose(t.Context(), deletes.Confirmed("test")), configMap("default", 404)); !apierrors.IsNotFound(err) {
		t.Errorf("a declared delete: %v", err)
	}
	if _, err := watcher.HubObjects.Watch(hubobjects.Selection{Object: &corev1.ConfigMap{}, Route: hubobjects.ByName()}, "x"); err != nil {
		t.Errorf("watch while the hub does not respond: %v", err)
	}
	expectHeld(true)
	l.lead(t, fleettest.Cluster(t, "hub"))
	expectHeld(false)
}

// A map function that does not return delays no other app, and fails its module; so does one that panics.
func TestHubObjects_BadMapFunctions(t *testing.T) {
	t.Parallel()
	test := unique("bad")
	hub := clientFor(t, fleettest.Cluster(t, "hub"))
	release := make(chan struct{})
	var calls atomic.Int64
	good := make(chan *hubobjects.Objects, 1)
	setUp := func(p registry.Remote) error {
		objects, err := p.HubObjects.Watch(objectsFor(test), string(p.Name))
		if err != nil {
			return err
		}
		if p.Name == "good" {
			good <- objects
		}
		source := hubobjects.Map(objects, func(ctx context.Context, obj client.Object) []string {
			if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind != "ConfigMap" {
				t.Errorf("an object has the kind %q", kind)
			}
			switch p.Name {
			case "stuck":
				<-release
			case "panics":
				panic("the map function panics")
			}
			obj.SetName("changed") // a copy
			return []string{obj.GetNamespace(), obj.GetNamespace()}
		})
		return registry.TypedControllerManagedBy[string](p.Manager).Named("bad").WatchesRawSource(source).
			Complete(reconcile.TypedFunc[string](func(context.Context, string) (ctrl.Result, error) {
				calls.Add(1)
				return ctrl.Result{}, nil
			}))
	}
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{registry.NewModule("mapper", registry.ModuleOptions{
			HubRules: watchesConfigMaps, Remote: fx.Invoke(setUp),
		})}
		o.Limits.ReconcileTimeout, o.Limits.StopTimeout = 2*time.Second, time.Second
	})
	t.Cleanup(func() { close(release) })
	_, config := remote(t, "one")
	for _, name := range []registry.ClusterName{"stuck", "panics", "good"} {
		spawn(t, r, name, config)
	}
	for i, to := range []string{"stuck", "panics", "good"} {
		must(t, hub.Create(t.Context(), hubObject(test, i, to)))
	}
	testkit.Until(t, "the good app is called", func() bool { return calls.Load() != 0 })
	var kept corev1.ConfigMapList
	if err := (<-good).List(t.Context(), &kept); err != nil || len(kept.Items) != 1 || kept.Items[0].Name != test+"-2" {
		t.Errorf("got %v, %+v: the map function has changed the object of all apps", err, kept.Items)
	}
	for name, text := range map[registry.ClusterName]string{"stuck": "has not returned", "panics": "the map function panics"} {
		eventually(t, func() error {
			info, _ := r.Status(name)
			if m := info.Modules[0]; !strings.Contains(m.Message, text) && !strings.Contains(info.Message, text) {
				return fmt.Errorf("%s: %q, %+v", name, info.Message, m)
			}
			return nil
		})
	}
	eventually(t, func() error { // The app has not ended as long as its goroutine has not.
		if r.Zombies() == 0 {
			return errors.New("the stuck app has ended")
		}
		return nil
	})
	if info, _ := r.Status("good"); info.State != state.StateReady {
		t.Errorf("the good app is %s: %s", info.State, info.Message)
	}
}
