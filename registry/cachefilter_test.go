// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

func ofTest(name string) labels.Selector { return labels.SelectorFromSet(labels.Set{"filter": name}) }

// newFiltered creates a ConfigMap, with the label of a test if label is not empty.
func newFiltered(t *testing.T, c *fleet.Cluster, namespace, label string) *corev1.ConfigMap {
	t.Helper()
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "filtered-", Namespace: namespace}}
	one.Data = map[string]string{"key": "value"}
	if label != "" {
		one.Labels = map[string]string{"filter": label}
	}
	must(t, clientFor(t, c).Create(t.Context(), one))
	return one
}

func withoutData(o client.Object) {
	if one, ok := o.(*corev1.ConfigMap); ok {
		one.Data = nil
	}
}

// asking is a module that records the registry.Remote of its app.
type asking struct {
	mu     sync.Mutex
	remote registry.Remote
}

func (a *asking) module(name string, filters ...registry.CacheFilter) registry.Module {
	return registry.NewModule(name, registry.ModuleOptions{Remote: a.part(), CacheFilters: filters})
}

func (a *asking) part() fx.Option {
	return fx.Invoke(func(p registry.Remote) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.remote = p
	})
}

func (a *asking) app() registry.Remote {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.remote
}

// configMapsIn returns the sorted names of the ConfigMaps of a namespace, each with the number of its entries.
func configMapsIn(ctx context.Context, from client.Reader, namespace string) ([]string, error) {
	var all corev1.ConfigMapList
	if err := from.List(ctx, &all, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var names []string
	for _, one := range all.Items {
		if strings.HasPrefix(one.Name, "filtered-") {
			names = append(names, fmt.Sprint(one.Name, " ", len(one.Data)))
		}
	}
	slices.Sort(names)
	return names, nil
}

func expectConfigMaps(t *testing.T, from client.Reader, namespace string, want ...string) {
	t.Helper()
	slices.Sort(want)
	eventually(t, func() error {
		got, err := configMapsIn(t.Context(), from, namespace)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			return fmt.Errorf("%w, -want +got:\n%s", err, diff)
		}
		return nil
	})
}

func newNamespace(t *testing.T, c *fleet.Cluster) string {
	t.Helper()
	return fleettest.Namespace(t, clientFor(t, c), "filters-")
}

// A filter applies to all cached readers of the module that declares it, but not to the other modules of the same app:
// two modules with different filters of a kind, and a module without a filter, each read their own selection.
func TestCacheFilter(t *testing.T) {
	t.Parallel()
	c, config := remote(t, "one")
	namespace := newNamespace(t, c)
	few, other := newFiltered(t, c, namespace, "few"), newFiltered(t, c, namespace, "other")
	var ofFew, ofOther, ofAll asking
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{
			ofFew.module("few", registry.CacheFilter{Object: &corev1.ConfigMap{}, Labels: ofTest("few"), Transform: withoutData}),
			ofOther.module("other", registry.CacheFilter{Object: &corev1.ConfigMap{}, Fields: fields.OneTermEqualSelector("metadata.name", other.Name)}),
			ofAll.module("all"),
		}
	})
	spawn(t, r, "filtered", config)

	p := ofFew.app()
	for _, from := range []client.Reader{p.Client, p.Cache, p.Manager.GetClient(), p.Manager.GetCache(), p.Cluster.GetClient()} {
		expectConfigMaps(t, from, namespace, few.Name+" 0")
	}
	expectConfigMaps(t, p.APIReader, namespace, few.Name+" 1", other.Name+" 1")
	var metadata metav1.PartialObjectMetadataList
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := p.Client.List(t.Context(), &metadata, client.InNamespace(namespace)); err != nil || len(metadata.Items) != 1 {
		t.Errorf("got metadata %v, %v, want 1 object", metadata.Items, err)
	}
	var namespaces corev1.NamespaceList // a kind without a filter
	if err := p.Client.List(t.Context(), &namespaces); err != nil || len(namespaces.Items) < 2 {
		t.Errorf("got namespaces %v, %v, want at least 2", namespaces.Items, err)
	}
	expectConfigMaps(t, ofOther.app().Client, namespace, other.Name+" 1")
	expectConfigMaps(t, ofAll.app().Client, namespace, few.Name+" 1", other.Name+" 1")
	if err := r.WithClient(t.Context(), "filtered", func(ctx context.Context, lent client.Client) error {
		got, err := configMapsIn(ctx, lent, namespace)
		if len(got) != 2 {
			t.Errorf("the hub reads %q, want 2 ConfigMaps", got)
		}
		return err
	}); err != nil {
		t.Error(err)
	}

	informer, err := p.Cache.GetInformer(t.Context(), &corev1.ConfigMap{})
	must(t, err)
	later := newFiltered(t, c, namespace, "few")
	expectConfigMaps(t, p.Client, namespace, few.Name+" 0", later.Name+" 0")
	if !informer.HasSynced() {
		t.Error("the informer of the filter has not synced")
	}
}

// The hub part of a module reads remotes through the filters of the module, also with registry/watch.
func TestCacheFilter_HubPart(t *testing.T) {
	t.Parallel()
	c, config := remote(t, "one")
	namespace := newNamespace(t, c)
	few, other := newFiltered(t, c, namespace, "hub-part"), newFiltered(t, c, namespace, "")
	handle := make(chan *registry.Registry, 1)
	var d diary
	r, run, err := hubApp(t, registry.NewModule("few", registry.ModuleOptions{
		HubRuns: registry.WithRemotes,
		Hub: fx.Invoke(func(m ctrl.Manager, r *registry.Registry) error {
			handle <- r
			return watch.ControllerManagedBy(m, r).Named("few").WatchesRemote(&corev1.ConfigMap{}, watch.Options[client.Object]{}).
				Complete(reconcile.TypedFunc[watch.Request](func(_ context.Context, q watch.Request) (ctrl.Result, error) {
					d.note(q.Name, 0)
					return ctrl.Result{}, nil
				}))
		}),
		CacheFilters: []registry.CacheFilter{{Object: &corev1.ConfigMap{}, Labels: ofTest("hub-part")}},
	}).Option())
	must(t, err)
	run()
	spawn(t, r, "filtered", config)
	d.has(t, few.Name+" 0")
	later := newFiltered(t, c, namespace, "hub-part")
	d.has(t, later.Name+" 0")
	if d.noted(other.Name + " 0") {
		t.Error("the hub part gets a request for an object outside the filter of its module")
	}
	mine := <-handle
	for handle, want := range map[*registry.Registry]int{mine: 2, r: 3} {
		eventually(t, func() error {
			return handle.WithClient(t.Context(), "filtered", func(ctx context.Context, lent client.Client) error {
				got, err := configMapsIn(ctx, lent, namespace)
				if err == nil && len(got) != want {
					return fmt.Errorf("got %q, want %d ConfigMaps", got, want)
				}
				return err
			})
		})
	}
}

// Objects that a filter excludes do not count towards the budget of the app. Transformed objects do.
func TestCacheFilter_Budget(t *testing.T) {
	t.Parallel()
	c, config := remote(t, "one")
	config.Namespaces = []string{newNamespace(t, c)}
	for range 12 {
		newFiltered(t, c, config.Namespaces[0], "")
	}
	newFiltered(t, c, config.Namespaces[0], "budget")
	reading := func(f ...registry.CacheFilter) *registry.Registry {
		return newRegistry(t, func(o *registry.Options) {
			o.Limits.MaxObjects = 10
			o.Modules = []registry.Module{registry.NewModule("reads", registry.ModuleOptions{
				CacheFilters: f,
				Remote: fx.Invoke(func(p registry.Remote) error {
					return ctrl.NewControllerManagedBy(p.Manager).Named("reads").For(&corev1.ConfigMap{}).Complete(reconcile.Func(
						func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
				}),
			})}
		})
	}
	spawn(t, reading(registry.CacheFilter{Object: &corev1.ConfigMap{}, Labels: ofTest("budget")}), "few", config)
	for name, f := range map[registry.ClusterName][]registry.CacheFilter{
		"all": nil, "transformed": {{Object: &corev1.ConfigMap{}, Transform: withoutData}},
	} {
		r := reading(f...)
		must(t, r.Ensure(name, config))
		expectState(t, r, name, state.StateFailed, state.ReasonOverBudget)
	}
}

// A filter selects objects within the namespaces of the Cluster only.
func TestCacheFilter_Namespaces(t *testing.T) {
	t.Parallel()
	c, config := remote(t, "one")
	first, second, third := newNamespace(t, c), newNamespace(t, c), newNamespace(t, c)
	in := map[string]string{}
	for _, namespace := range []string{first, second, third} {
		in[namespace] = newFiltered(t, c, namespace, "").Name + " 1"
	}
	config.Namespaces = []string{first, second}
	var both, none asking
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{
			both.module("both", registry.CacheFilter{Object: &corev1.ConfigMap{}, Namespaces: []string{second, third}}),
			none.module("none", registry.CacheFilter{Object: &corev1.ConfigMap{}, Namespaces: []string{third}}),
		}
	})
	spawn(t, r, "narrow", config)
	expectConfigMaps(t, both.app().Client, "", in[second])
	if got, err := configMapsIn(t.Context(), none.app().Client, ""); err != nil || len(got) > 0 {
		t.Errorf("the module whose filter has no namespace of the Cluster reads %q, %v, want 0 ConfigMaps", got, err)
	}
}

// choosy is a module configuration with a filter.
type choosy struct {
	Label string `json:"label"`
}

func (c choosy) CacheFilters() []registry.CacheFilter {
	return []registry.CacheFilter{{Object: &corev1.ConfigMap{}, Labels: ofTest(c.Label)}}
}

// The configuration of a module can have a filter that differs between remotes.
func TestCacheFilter_Config(t *testing.T) {
	t.Parallel()
	c, config := remote(t, "one")
	namespace := newNamespace(t, c)
	plain, edge := newFiltered(t, c, namespace, "plain"), newFiltered(t, c, namespace, "edge")
	var a asking
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{registry.NewModule("choosy", registry.ModuleOptions{
			Remote: a.part(), Config: registry.ConfigOf(func() choosy { return choosy{Label: "plain"} }),
		})}
		o.ModuleConfigs = []moduleconfig.Config{{Name: "choosy", Overrides: []moduleconfig.Override{{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}, Config: json.RawMessage(`{"label": "edge"}`),
		}}}}
	})
	spawn(t, r, "plain", config)
	expectConfigMaps(t, a.app().Client, namespace, plain.Name+" 1")
	config.Labels = map[string]string{"tier": "edge"}
	spawn(t, r, "edge", config)
	expectConfigMaps(t, a.app().Client, namespace, edge.Name+" 1")
}

// A transform that panics fails its module.
func TestCacheFilter_TransformPanics(t *testing.T) {
	t.Parallel()
	c, config := remote(t, "one")
	config.Namespaces = []string{newNamespace(t, c)}
	newFiltered(t, c, config.Namespaces[0], "")
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{registry.NewModule("faulty", registry.ModuleOptions{
			CacheFilters: []registry.CacheFilter{{Object: &corev1.ConfigMap{}, Transform: func(client.Object) { panic("boom") }}},
			Remote: fx.Invoke(func(p registry.Remote) error {
				_, err := p.Cache.GetInformer(t.Context(), &corev1.ConfigMap{})
				return err
			}),
		})}
	})
	must(t, r.Ensure("transformed", config))
	info := expectState(t, r, "transformed", state.StateFailed, state.ReasonModuleFailed)
	if !strings.Contains(info.Message, `module "faulty": transform of a cache filter: panic: boom`) {
		t.Errorf("got message %q, want the module and its panic", info.Message)
	}
}
