// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	network "github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// atOnce calls remove for each of so many objects at the same time, and returns how many were deleted. Other errors than
// deletes that are held fail the test.
func atOnce(t *testing.T, objects int, remove func(i int) error) int {
	t.Helper()
	var deleted atomic.Int64
	var removing sync.WaitGroup
	for i := range objects {
		removing.Go(func() {
			if err := remove(i); err == nil {
				deleted.Add(1)
			} else if !errors.Is(err, deletes.ErrHeld) {
				t.Errorf("delete %d: %v", i, err)
			}
		})
	}
	removing.Wait()
	return int(deleted.Load())
}

// Deletes at the same time cannot exceed a limit together. Each kind has limits of its own.
func TestDeletes_AtOnce(t *testing.T) {
	t.Parallel()
	_, app, outside := appOf(t, nil)
	namespace := objectsOf(t, outside, 40)
	testkit.Equal(t, atOnce(t, 40, func(i int) error { return app.Client.Delete(t.Context(), configMap(namespace, i)) }), 20, "ConfigMaps were deleted")
	if n := left(t, outside, namespace); n != 20 {
		t.Errorf("%d ConfigMaps are left, want 20", n)
	}
	spaces := make([]*corev1.Namespace, 6)
	for i := range spaces {
		spaces[i] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "doomed-"}}
		must(t, outside.Create(t.Context(), spaces[i]))
	}
	testkit.Equal(t, atOnce(t, len(spaces), func(i int) error { return app.Client.Delete(t.Context(), spaces[i]) }), 3, "Namespaces were deleted")
}

// The limit of all remotes together is kept, too.
// Promise: a module deletes at most 100 objects of a kind in all remotes without evidence.
func TestDeletes_Fleet(t *testing.T) {
	t.Parallel()
	const remotes, each = 6, 20
	module, apps := handing("pruner")
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{module} })
	c, config := remote(t, "one")
	outside := clientFor(t, c)
	namespace := objectsOf(t, outside, remotes*each)
	var all []registry.Remote
	for i := range remotes {
		spawn(t, r, registry.ClusterName(fmt.Sprintf("edge-%d", i)), config)
		all = append(all, <-apps)
	}
	n := atOnce(t, remotes*each, func(i int) error {
		return all[i%remotes].Client.Delete(t.Context(), configMap(namespace, i))
	})
	if kept := left(t, outside, namespace); n != 100 || kept != 20 {
		t.Errorf("%d objects were deleted and %d are left, want 100 and 20", n, kept)
	}
	if holds := r.HeldDeletes(); len(holds) != 1 || !holds[0].Fleet {
		t.Errorf("the holds are %+v", holds)
	}
}

// The delete of a collection is sent if all of it is allowed, and refused whole otherwise.
func TestDeletes_CollectionAtTheEdge(t *testing.T) {
	t.Parallel()
	_, app, outside := appOf(t, nil)
	for _, c := range []struct {
		objects int
		limit   int64 // of the request; 0 for none
		left    int
	}{{0, 0, 0}, {13, 0, 0}, {10, 5, 5}, {3, 0, 3}, {0, 0, 0}} { // After 18 of 20 objects three more are held.
		namespace := objectsOf(t, outside, c.objects)
		err := app.Client.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, &client.DeleteAllOfOptions{
			ListOptions: client.ListOptions{Namespace: namespace, Limit: c.limit},
		})
		if held := c.limit == 0 && c.left > 0; errors.Is(err, deletes.ErrHeld) != held || !held && err != nil {
			t.Errorf("a collection of %d: %v", c.objects, err)
		}
		if n := left(t, outside, namespace); n != c.left {
			t.Errorf("a collection of %d: %d are left, want %d", c.objects, n, c.left)
		}
	}
}

// Deletes that are no requests count for their module, whatever their context, in its remote and in the hub; cleanup steps have evidence.
func TestDeletes_WithoutRequests(t *testing.T) {
	t.Parallel()
	orders := schema.GroupResource{Group: "entities.example.com", Resource: "orders"}
	var asked sync.WaitGroup
	ask := func(m manager.Manager, limiter deletes.Limiter) error {
		return m.Add(manager.RunnableFunc(func(context.Context) error {
			defer asked.Done()
			for i := range 21 {
				name := fmt.Sprint("o-", i)
				if _, err := limiter.Admit(t.Context(), orders, name, types.UID(name)); errors.Is(err, deletes.ErrHeld) != (i == 20) {
					t.Errorf("delete %d: %v", i, err)
				}
			}
			return nil
		}))
	}
	asked.Add(2)
	r, run, err := hubApp(t, registry.NewModule("pruner", registry.ModuleOptions{
		Remote: fx.Options(
			fx.Invoke(func(p registry.Remote) error { return ask(p.Manager, p.Deletes) }),
			fx.Provide(registry.AsCleanup(func(limiter deletes.Limiter) registry.CleanupStep {
				return registry.CleanupStep{Name: "orders", Run: func(ctx context.Context) error {
					_, err := limiter.Admit(ctx, orders, "last", "last")
					return err
				}}
			})),
		),
		HubRuns: registry.WithRemotes,
		Hub:     fx.Invoke(func(p registry.HubPart) error { return ask(p.Manager, p.Deletes) }),
	}).Option())
	testkit.Must(t, err)
	run()
	_, config := remote(t, "one")
	spawn(t, r, "one", config)
	asked.Wait()
	places := map[string]bool{}
	for _, held := range r.HeldDeletes() {
		if held.Module != "pruner" || held.Resource != orders || held.Fleet {
			t.Errorf("the hold %+v", held)
		}
		places[held.Cluster] = true
	}
	if len(places) != 2 || !places["one"] || !places[""] {
		t.Errorf("there are holds in %v, want the remote and the hub", places)
	}
	must(t, r.Remove(t.Context(), "one")) // The cleanup step has evidence.
}

// A module that says how many objects it owns keeps half of them.
func TestDeletes_Owning(t *testing.T) {
	t.Parallel()
	_, app, outside := appOf(t, nil)
	namespace := objectsOf(t, outside, 12)
	owning := deletes.Owning(t.Context(), 12)
	testkit.Equal(t, atOnce(t, 12, func(i int) error { return app.Client.Delete(owning, configMap(namespace, i)) }), 6, "objects were deleted")
}

// Only deletes that may have had an effect count: not those that are refused, not those of an object that is being deleted already,
// and not those of an object that the module has replaced.
func TestDeletes_NotCounted(t *testing.T) {
	t.Parallel()
	_, app, outside := appOf(t, nil)
	namespace := objectsOf(t, outside, 25)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	other := client.Preconditions{UID: new(types.UID("another"))}
	kept := configMap(namespace, 900)
	kept.Finalizers = []string{"example.com/busy"}
	must(t, outside.Create(t.Context(), kept))
	for range 22 {
		replaced := configMap(namespace, 901)
		for what, err := range map[string]error{
			"gone":     app.Client.Delete(t.Context(), configMap(namespace, 999)),
			"another":  app.Client.Delete(t.Context(), configMap(namespace, 0), other),
			"canceled": app.Client.Delete(ended, configMap(namespace, 0)),
			"dry run":  app.Client.Delete(t.Context(), configMap(namespace, 0), client.DryRunAll),
			"kept":     app.Client.Delete(t.Context(), kept, client.Preconditions{UID: &kept.UID}),
			"replaced": errors.Join(app.Client.Create(t.Context(), replaced), app.Client.Delete(t.Context(), replaced)),
		} {
			if errors.Is(err, deletes.ErrHeld) || (err == nil) != slices.Contains([]string{"dry run", "kept", "replaced"}, what) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	if n := atOnce(t, 25, func(i int) error { return app.Client.Delete(t.Context(), configMap(namespace, i)) }); n != 19 {
		t.Errorf("%d objects were deleted after one that was kept, want 19", n)
	}
}

// appWithRights registers a remote whose credential has few permissions, and returns the app, and what the user may be granted.
func appWithRights(t *testing.T, name string, invoke func(registry.Remote) error, rules ...rbacv1.PolicyRule) (registry.Remote, client.Client) {
	t.Helper()
	apps := make(chan registry.Remote, 1)
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{registry.NewModule("pruner", registry.ModuleOptions{
			Remote: fx.Invoke(func(p registry.Remote) error {
				apps <- p
				return invoke(p)
			}),
		})}
	})
	c := fleettest.Cluster(t, "one")
	user, err := c.MintToken(t.Context(), fleet.User{Name: name, Rules: rules})
	must(t, err)
	spawn(t, r, "one", configFor(t, user.Kubeconfig()))
	return <-apps, clientFor(t, c)
}

// While an informer of the module has no objects, its deletes are refused. That ends by itself.
func TestDeletes_SourceStale(t *testing.T) {
	t.Parallel()
	app, outside := appWithRights(t, "held-blind", func(p registry.Remote) error {
		_, err := p.Cache.GetInformer(t.Context(), &corev1.Secret{}, cache.BlockUntilSynced(false))
		return err
	}, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}})
	namespace := objectsOf(t, outside, 1)
	var held *deletes.HeldError
	err := app.Client.Delete(t.Context(), configMap(namespace, 0))
	if !errors.As(err, &held) || held.Reason != deletes.SourceStale || held.ID != "" {
		t.Fatalf("a delete without a source: %v", err)
	}
	if _, err := fleettest.Cluster(t, "one").MintToken(t.Context(), fleet.User{Name: "held-blind", Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "namespaces"}, Verbs: []string{"*"}},
	}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { // On a busy machine the response may be late.
		return client.IgnoreNotFound(app.Client.Delete(t.Context(), configMap(namespace, 0)))
	})
}

// A delete whose response is lost counts: it may have had an effect.
func TestDeletes_LostResponse(t *testing.T) {
	t.Parallel()
	module, apps := handing("pruner")
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{module} })
	c := fleettest.Cluster(t, "one")
	proxy, config := behindProxy(t, c, c.Kubeconfig())
	config.Probe.FailureThreshold = 1000 // The app stays.
	spawn(t, r, "one", config)
	app, outside := <-apps, clientFor(t, c)
	namespace := objectsOf(t, outside, 25)
	must(t, proxy.Set(network.LoseAnswers()))
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() { lost <- app.Client.Delete(ctx, configMap(namespace, 0)) }()
	testkit.Until(t, "the request arrives", func() bool { return left(t, outside, namespace) != 25 })
	cancel()
	if err := <-lost; err == nil || errors.Is(err, deletes.ErrHeld) {
		t.Fatalf("a delete whose response is lost: %v", err)
	}
	must(t, proxy.Set(network.Pass()))
	eventually(t, func() error { // The connections were reset.
		return app.APIReader.Get(t.Context(), client.ObjectKeyFromObject(configMap(namespace, 1)), &corev1.ConfigMap{})
	})
	n := atOnce(t, 24, func(i int) error { return app.Client.Delete(t.Context(), configMap(namespace, i+1)) })
	testkit.Equal(t, n, 19, "objects were deleted after one with a lost response")
}

// The deletes of a hub part have limits, too: in the hub, with its own client and with one from its Config, and in remotes, with
// a lease of its Registry.
func TestDeletes_HubPart(t *testing.T) {
	t.Parallel()
	parts := make(chan registry.HubPart, 1)
	r, run, err := hubApp(t, registry.NewModule("pruner", registry.ModuleOptions{
		HubRuns: registry.WithRemotes,
		Hub:     fx.Invoke(func(p registry.HubPart) { parts <- p }),
	}).Option())
	must(t, err)
	run()
	part := <-parts
	own, err := client.New(part.Config, client.Options{Scheme: part.Scheme, Mapper: part.RESTMapper})
	must(t, err)
	outside := clientFor(t, fleettest.Cluster(t, "hub"))
	namespace := objectsOf(t, outside, 22)
	if got := atOnce(t, 22, func(i int) error {
		if i%2 == 0 {
			return own.Delete(t.Context(), configMap(namespace, i))
		}
		return part.Client.Delete(t.Context(), configMap(namespace, i))
	}); got != 20 {
		t.Errorf("the hub part deleted %d objects of the hub, want 20", got)
	}
	c, config := remote(t, "one")
	spawn(t, r, "one", config)
	outside = clientFor(t, c)
	namespace = objectsOf(t, outside, 22)
	if got := atOnce(t, 22, func(i int) error {
		return part.Registry.WithClient(t.Context(), "one", func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, configMap(namespace, i))
		})
	}); got != 20 {
		t.Errorf("the hub part deleted %d objects of a remote, want 20", got)
	}
	for _, held := range r.HeldDeletes() {
		if held.Module != "pruner" {
			t.Errorf("the hold %+v is not of the module", held)
		}
	}
}
