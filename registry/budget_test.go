// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// populate creates n ConfigMaps with so many bytes in a namespace.
func populate(t *testing.T, c *fleet.Cluster, namespace string, n, bytes int) {
	t.Helper()
	direct, group := clientFor(t, c), errgroup.Group{}
	group.SetLimit(20)
	for range n {
		group.Go(func() error {
			return direct.Create(context.WithoutCancel(t.Context()), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "crowd-"},
				Data:       map[string]string{"text": strings.Repeat("x", bytes)},
			})
		})
	}
	must(t, group.Wait())
}

// budgeted returns a registry with limits, and a neighbour that stays within them.
func budgeted(t *testing.T, limits registry.Limits) (*registry.Registry, *prometheus.Registry) {
	t.Helper()
	var c counter
	metrics := prometheus.NewRegistry()
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules, o.Metrics, o.Limits = []registry.Module{c.module()}, metrics, limits
	})
	two, config := remote(t, "two")
	config.Namespaces = []string{newNamespace(t, two)}
	spawn(t, r, healthy, config)
	return r, metrics
}

// expectOverBudget waits until the remote has exceeded its budget twice and its status reports this.
func expectOverBudget(t *testing.T, r *registry.Registry, name registry.ClusterName, texts ...string) {
	t.Helper()
	eventually(t, func() error {
		info, _ := r.Status(name)
		says := info.App.Reason == state.ReasonOverBudget && info.Restarts >= 2 &&
			info.Modules[0].State == state.ModuleFailed && info.Modules[0].Problem == info.App.Problem
		for _, text := range append(texts, "ConfigMap", `"counter"`) {
			says = says && strings.Contains(info.App.Message, text)
		}
		if !says {
			return &stateError{want: state.StateFailed, reason: state.ReasonOverBudget, got: info}
		}
		return nil
	})
	neighbour, _ := r.Status(healthy)
	if neighbour.State != state.StateReady || neighbour.Restarts != 0 {
		t.Errorf("the neighbour is %s after %d restarts, want Ready after 0", neighbour.State, neighbour.Restarts)
	}
	info, _ := r.Status(name)
	t.Log(info.App.Message)
}

// A remote with more objects or bytes than its budget allows fails with OverBudget, and its neighbour stays Ready.
func TestBudget_OfObjects(t *testing.T) {
	t.Parallel()
	one, config := remote(t, "one")
	config.Namespaces = []string{newNamespace(t, one)}
	const crowd = 150
	populate(t, one, config.Namespaces[0], crowd, 10<<10)
	for name, c := range map[string]struct {
		limits registry.Limits
		says   string
		over   state.ProblemKind
	}{
		"objects": {registry.Limits{MaxObjects: crowd - 1}, "149 objects", state.ProblemTooManyObjects},
		"memory":  {registry.Limits{MaxCacheBytes: 1 << 20}, "1 MiB", state.ProblemTooManyBytes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := budgeted(t, c.limits)
			must(t, r.Ensure("huge", config))
			expectOverBudget(t, r, "huge", c.says)
			if info, _ := r.Status("huge"); info.App.Problem.Kind != c.over {
				t.Errorf("got problem %v, want %s", info.App.Problem, c.over)
			}
		})
	}
}

// Within its budget a remote is Ready, changes of its objects do not count as growth, and the metrics report the size
// of its cache. When it grows beyond its budget, its app fails.
func TestBudget_Grows(t *testing.T) {
	t.Parallel()
	c, config := remote(t, "one")
	namespace := newNamespace(t, c)
	config.Namespaces = []string{namespace}
	const few = 100
	populate(t, c, namespace, few, 100)
	r, metrics := budgeted(t, registry.Limits{MaxObjects: few + 20})
	spawn(t, r, "huge", config)
	before, _ := r.Status("huge")

	t.Run("changes are not growth", func(t *testing.T) {
		direct := clientFor(t, c)
		var all corev1.ConfigMapList
		must(t, direct.List(t.Context(), &all, client.InNamespace(namespace), client.Limit(20)))
		for i := range 3 * len(all.Items) {
			one := &all.Items[i%len(all.Items)]
			one.Data = map[string]string{"text": fmt.Sprint(i)}
			must(t, direct.Update(t.Context(), one))
		}
		last := all.Items[0]
		eventually(t, func() error { return sameAs(t, r, &last) })
		if after, _ := r.Status("huge"); after.State != state.StateReady || after.Epoch != before.Epoch {
			t.Errorf("the remote is %s with epoch %d, want Ready with epoch %d", after.State, after.Epoch, before.Epoch)
		}
	})
	t.Run("what it holds is measured", func(t *testing.T) {
		labels := map[string]string{"cluster": "huge", "kind": "ConfigMap"}
		eventually(t, func() error {
			objects, bytes := metric(t, metrics, "clusterfx_cache_objects", labels), metric(t, metrics, "clusterfx_cache_bytes", labels)
			if objects < few || objects > few+20 || bytes < few*200 || bytes > few*2000 {
				return fmt.Errorf("the metrics report %v objects and %v bytes", objects, bytes)
			}
			return nil
		})
	})
	t.Run("growth is", func(t *testing.T) {
		populate(t, c, namespace, 30, 100)
		expectOverBudget(t, r, "huge", "120 objects")
	})
	t.Run("its figures go with it", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		must(t, r.Stop(ctx, "huge"))
		eventually(t, func() error {
			families, err := metrics.Gather()
			for _, family := range families {
				for _, one := range family.Metric {
					for _, label := range one.Label {
						if label.GetValue() == "huge" {
							err = errors.Join(err, fmt.Errorf("metric %s still exists", family.GetName()))
						}
					}
				}
			}
			return err
		})
	})
	t.Run("a raised limit lets it in", func(t *testing.T) {
		r, _ := budgeted(t, registry.Limits{MaxObjects: 2 * few})
		spawn(t, r, "huge", config)
	})
}

// sameAs returns nil if the cache of the remote named huge has this version of an object.
func sameAs(t *testing.T, r *registry.Registry, want *corev1.ConfigMap) error {
	t.Helper()
	return r.WithClient(t.Context(), "huge", func(ctx context.Context, remote client.Client) error {
		var got corev1.ConfigMap
		if err := remote.Get(ctx, client.ObjectKeyFromObject(want), &got); err != nil {
			return err
		}
		if got.ResourceVersion != want.ResourceVersion {
			return fmt.Errorf("the cache has version %s, want %s", got.ResourceVersion, want.ResourceVersion)
		}
		return nil
	})
}

// The end of an app leaves no goroutine behind, which TestMain checks: before a cache limited to namespaces has synced,
// and while a cache of objects and metadata receives new objects.
func TestCache_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	one := fleettest.Cluster(t, "one")
	minted, err := one.MintCertificate(t.Context(), fleet.User{Name: "nobody-at-all"})
	must(t, err)
	limited := configFor(t, minted.Kubeconfig())
	limited.Namespaces = []string{"default", "kube-system"}
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{listening(t)} })
	must(t, r.Ensure("limited", limited))
	_, config := remote(t, "one")
	spawn(t, r, "busy", config)
	expectStatus(t, r, "limited", func(info registry.Status) bool { return info.App.Reason == state.ReasonReady || info.Epoch != 0 })
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		populate(t, one, "default", 100, 100)
	}()
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := r.Stop(ctx, "busy"); err != nil {
			t.Errorf("Stop: %v", err)
		}
		cancel()
		spawn(t, r, "busy", config)
	}
	<-busy
}

// listening is a module that adds event handlers to informers before the cache runs.
func listening(t *testing.T) registry.Module {
	t.Helper()
	return registry.NewModule("listening", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		for _, obj := range []client.Object{&corev1.ConfigMap{}, metadata} {
			informer, err := p.Cache.GetInformer(t.Context(), obj)
			if err != nil {
				return err
			}
			handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
			if err != nil {
				return err
			}
			another, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
			if err := errors.Join(err, informer.RemoveEventHandler(another)); err != nil {
				return err
			}
			_ = handle.HasSynced()
		}
		return nil
	})})
}
