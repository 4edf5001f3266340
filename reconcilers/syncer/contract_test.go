// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/registry"
)

// diary records calls in their order.
type diary struct {
	mu  sync.Mutex
	all []string
}

func (d *diary) add(format string, a ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, fmt.Sprintf(format, a...))
}

func (d *diary) entries() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

// early is an Initializer and an IndexRegisterer, and no Syncer.
type early struct {
	name  string
	diary *diary
	init  func(ctx context.Context, p *syncer.Pair) error
	index func(p *syncer.Pair) error
}

func (e *early) Name() string { return e.name }

func (e *early) Init(ctx context.Context, p *syncer.Pair) error {
	e.diary.add("init %s", e.name)
	if e.init == nil {
		return nil
	}
	return e.init(ctx, p)
}

func (e *early) RegisterIndices(_ context.Context, p *syncer.Pair) error {
	e.diary.add("index %s", e.name)
	if e.index == nil {
		return nil
	}
	return e.index(p)
}

// late is a ControllerStarter, and no Syncer.
type late struct {
	name     string
	register func(ctx context.Context, p *syncer.Pair) error
}

func (l *late) Name() string                                       { return l.name }
func (l *late) Register(ctx context.Context, p *syncer.Pair) error { return l.register(ctx, p) }

// modified is a Syncer whose controller a ControllerModifier changes.
type modified struct {
	syncer.Copy[*corev1.ConfigMap]
	modify func() error
}

func (m *modified) ModifyController(
	_ *syncer.Pair, b *registry.ControllerBuilder[reconcile.Request],
) (*registry.ControllerBuilder[reconcile.Request], error) {
	return b, m.modify()
}

// Start calls Init of all Items, then RegisterIndices of all, and the rest when the caches run.
// Promise: start: items in their order, phase by phase; an error of any phase ends the start or the manager, never the process.
func TestStart_Phases(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	must(t, b.up.Create(t.Context(), b.original("indexed", map[string]string{"k": "v"})))
	d := &diary{}
	noCaches := func(ctx context.Context, p *syncer.Pair) error {
		return p.With(ctx, func(ctx context.Context, up, down syncer.Access) error {
			if err := up.Client.Get(ctx, types.NamespacedName{Namespace: b.upNS, Name: "indexed"}, &corev1.ConfigMap{}); err == nil {
				return errors.New("a cache runs in Init")
			}
			if up.Config == nil || down.Config == nil {
				return errors.New("there is no configuration")
			}
			return up.Live.Get(ctx, types.NamespacedName{Namespace: b.upNS, Name: "indexed"}, &corev1.ConfigMap{})
		})
	}
	const field = "data.k"
	index := func(p *syncer.Pair) error {
		return p.Manager().GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, field, func(obj client.Object) []string {
			return []string{obj.(*corev1.ConfigMap).Data["k"]}
		})
	}
	indexed := func(ctx context.Context, p *syncer.Pair) error {
		return p.With(ctx, func(ctx context.Context, up, down syncer.Access) error {
			var list corev1.ConfigMapList
			if err := up.Client.List(ctx, &list, client.InNamespace(b.upNS), client.MatchingFields{field: "v"}); err != nil {
				return err
			}
			d.add("late finds %d", len(list.Items))
			return down.Client.List(ctx, &list, client.InNamespace(b.downNS))
		})
	}
	m := &modified{Copy: syncer.Copy[*corev1.ConfigMap]{Called: "modified"}}
	m.modify = func() error {
		d.add("modify")
		return nil
	}
	must(t, syncer.Start(t.Context(), b.pair,
		syncer.Of(syncer.Syncer[*corev1.ConfigMap](m), b.translator(), syncer.Options[*corev1.ConfigMap]{Select: b.inTest}),
		syncer.Part(&late{name: "late", register: indexed}),
		syncer.Part(&early{name: "one", diary: d, init: noCaches, index: index}),
		syncer.Part(&early{name: "two", diary: d}),
	))
	testkit.Equal(t, d.entries(), []string{"init one", "init two", "index one", "index two"})
	b.run(t)
	b.wait(t, "indexed", map[string]string{"k": "v"})
	eventually(t, func() error {
		if diff := cmp.Diff([]string{"modify", "late finds 1"}, d.entries()[4:]); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// An error of a phase ends Start, and an error of a late phase ends the manager.
// Promise: Initializer, IndexRegisterer: before the caches run, in this order, each for all items.
func TestStart_ErrorsAbort(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	d, errPhase := &diary{}, errors.New("of the phase")
	fails := func(context.Context, *syncer.Pair) error { return errPhase }
	err := syncer.Start(t.Context(), b.pair, syncer.Part(&early{name: "one", diary: d, init: fails}), syncer.Part(&early{name: "two", diary: d}))
	if !errors.Is(err, errPhase) || !slices.Equal(d.entries(), []string{"init one"}) {
		t.Errorf("after an error of Init: %v, %v", err, d.entries())
	}
	d = &diary{}
	err = syncer.Start(t.Context(), b.pair, syncer.Part(&late{name: "late", register: fails}),
		syncer.Part(&early{name: "one", diary: d, index: func(*syncer.Pair) error { return errPhase }}), syncer.Part(&early{name: "two", diary: d}))
	if !errors.Is(err, errPhase) || !slices.Equal(d.entries(), []string{"init one", "init two", "index one"}) {
		t.Errorf("after an error of RegisterIndices: %v, %v", err, d.entries())
	}
	m := &modified{Copy: syncer.Copy[*corev1.ConfigMap]{Called: "modified"}, modify: func() error { return errPhase }}
	for name, item := range map[string]syncer.Item{
		"ControllerStarter":  syncer.Part(&late{name: "late", register: fails}),
		"ControllerModifier": syncer.Of(syncer.Syncer[*corev1.ConfigMap](m), b.translator(), syncer.Options[*corev1.ConfigMap]{}),
	} {
		b.begin(t, nil)
		must(t, syncer.Start(t.Context(), b.pair, item))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		testkit.ErrorIs(t, b.manager.Start(ctx), errPhase, name, "the manager ends with")
		cancel()
	}
}

// Options that cannot be used are found before anything starts.
// Promise: Register, RegisterFake: without fx; wrong options are errors before anything starts.
func TestRegister_InvalidOptions(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	copies := &syncer.Copy[*corev1.ConfigMap]{Called: "configmaps"}
	for name, err := range map[string]error{
		"no pair":  syncer.Register[*corev1.ConfigMap](nil, copies, b.translator(), syncer.Options[*corev1.ConfigMap]{}),
		"no name":  syncer.Register(b.pair, &syncer.Copy[*corev1.ConfigMap]{}, b.translator(), syncer.Options[*corev1.ConfigMap]{}),
		"identity": syncer.Register(b.pair, copies, syncer.NewMirror[*corev1.ConfigMap](syncer.Identity{Tenant: "other"}, syncer.TranslatorOptions{}), syncer.Options[*corev1.ConfigMap]{}),
		"pair":     second(syncer.NewPair(syncer.PairOptions{Name: "p", Identity: syncer.Identity{Tenant: "t"}})),
		"tenant":   second(syncer.NewPair(syncer.PairOptions{Name: "p", Manager: b.manager})),
		"side":     second(syncer.NewPair(syncer.PairOptions{Name: "p", Manager: b.manager, Identity: syncer.Identity{Tenant: "t"}})),
		"dns":      second(syncer.NewPair(syncer.PairOptions{Name: "P", Manager: b.manager, Identity: syncer.Identity{Tenant: "t"}})),
	} {
		testkit.ErrorIs(t, err, syncer.ErrInvalidConfig, name)
	}
}

func second[T any](_ T, err error) error { return err }

// Hooks are called in their order, each with the result of the one before, for each side and verb.
// Promise: ClientHook: changes what is read and written on either side, in order; an error aborts; no change is no request.
func TestHooks_MutateInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	d := &diary{}
	note := func(what string) syncer.Mutate[*corev1.ConfigMap] {
		return func(_ context.Context, obj *corev1.ConfigMap) (*corev1.ConfigMap, error) {
			if obj.Name == "a" || strings.HasPrefix(obj.Name, "a-") {
				d.add("%s", what)
			}
			return obj, nil
		}
	}
	extend := func(with string) syncer.Mutate[*corev1.ConfigMap] {
		return func(_ context.Context, obj *corev1.ConfigMap) (*corev1.ConfigMap, error) {
			changed := obj.DeepCopy()
			changed.Data = map[string]string{"k": obj.Data["k"] + with}
			return changed, nil
		}
	}
	b.copies(t, syncer.Options[*corev1.ConfigMap]{Hooks: []syncer.ClientHook[*corev1.ConfigMap]{
		{Name: "notes", Upstream: syncer.Mutators[*corev1.ConfigMap]{Get: note("get up")}, Downstream: syncer.Mutators[*corev1.ConfigMap]{
			Get: note("get down"), Create: note("create"), Update: note("update"), Delete: note("delete"),
		}},
		{Name: "one", Upstream: syncer.Mutators[*corev1.ConfigMap]{Get: extend("g")}},
		{Name: "two", Downstream: syncer.Mutators[*corev1.ConfigMap]{Create: extend("1"), Update: extend("1")}},
		{Name: "three", Downstream: syncer.Mutators[*corev1.ConfigMap]{Create: extend("2"), Update: extend("2")}},
	}})
	b.run(t)
	up := b.original("a", map[string]string{"k": "v"})
	must(t, b.up.Create(t.Context(), up))
	b.wait(t, "a", map[string]string{"k": "vg12"})
	must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"w"}}`))))
	b.wait(t, "a", map[string]string{"k": "wg12"})
	must(t, b.up.Delete(t.Context(), up))
	fleettest.Gone(t, b.up, up)
	got := d.entries()
	for _, want := range []string{"get up", "get down", "create", "update", "delete"} {
		if !slices.Contains(got, want) {
			t.Errorf("no hook is called for %q: %v", want, got)
		}
	}
}

// An error of a hook aborts the reconcile before the request, and it is tried again.
func TestHooks_ErrorsAbort(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var mu sync.Mutex
	failures := map[string]int{}
	fail := func(what string) syncer.Mutate[*corev1.ConfigMap] {
		return func(_ context.Context, obj *corev1.ConfigMap) (*corev1.ConfigMap, error) {
			mu.Lock()
			defer mu.Unlock()
			if failures[what]++; failures[what] <= 3 {
				return obj, errors.New(what)
			}
			return obj, nil
		}
	}
	never := func(_ context.Context, obj *corev1.ConfigMap) (*corev1.ConfigMap, error) {
		mu.Lock()
		defer mu.Unlock()
		if failures["create"] <= 3 {
			t.Error("the next hook is called after an error")
		}
		return obj, nil
	}
	b.copies(t, syncer.Options[*corev1.ConfigMap]{Hooks: []syncer.ClientHook[*corev1.ConfigMap]{
		{Name: "fails", Upstream: syncer.Mutators[*corev1.ConfigMap]{Get: fail("get")}, Downstream: syncer.Mutators[*corev1.ConfigMap]{
			Create: fail("create"), Update: fail("update"), Delete: fail("delete"),
		}},
		{Name: "never", Downstream: syncer.Mutators[*corev1.ConfigMap]{Create: never}},
	}})
	b.run(t)
	up := b.original("a", map[string]string{"k": "1"})
	must(t, b.up.Create(t.Context(), up))
	b.wait(t, "a", map[string]string{"k": "1"})
	must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"2"}}`))))
	b.wait(t, "a", map[string]string{"k": "2"})
	must(t, b.up.Delete(t.Context(), up))
	fleettest.Gone(t, b.up, up)
	fleettest.Gone(t, b.down, b.copyOf("a"))
	for _, what := range []string{"get", "create", "update", "delete"} {
		mu.Lock()
		if failures[what] < 4 {
			t.Errorf("%s is called %d times", what, failures[what])
		}
		mu.Unlock()
	}
}
