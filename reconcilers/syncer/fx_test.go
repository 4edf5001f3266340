// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

func (b *bench) pairNamed(name string) func(ctrl.Manager) (*syncer.Pair, error) {
	return func(mgr ctrl.Manager) (*syncer.Pair, error) {
		return syncer.NewPair(syncer.PairOptions{
			Name: name, Manager: mgr, Upstream: syncer.InProcess(b.upHost), Downstream: syncer.InProcess(b.downHost),
			Identity: syncer.Identity{Tenant: name, TargetNamespace: b.downNS},
		})
	}
}

// itemFor returns an Item that copies the originals with the label for.
func (b *bench) itemFor(pair, value string) syncer.Item {
	c := &syncer.Copy[*corev1.ConfigMap]{Called: "copies-" + value}
	translator := syncer.NewNamespaced[*corev1.ConfigMap](
		syncer.Identity{Tenant: pair, TargetNamespace: b.downNS}, syncer.TranslatorOptions{})
	return syncer.Of(c, translator, syncer.Options[*corev1.ConfigMap]{Select: func(up *corev1.ConfigMap) bool {
		return up.Namespace == b.upNS && up.Labels["for"] == value
	}})
}

// An App has two pairs, and the Items of any module belong to the pair that they name, or to each.
// Promise: Pair: the configuration, the clients and the identity of two clusters; many of them in one process.
func TestModule_TwoPairs(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	d := &diary{}
	app := fxtest.New(t,
		fx.NopLogger,
		fx.Provide(func() ctrl.Manager { return b.manager }),
		syncer.Module(b.pairNamed("one")),
		syncer.Module(b.pairNamed("two")),
		fx.Module("first", syncer.AsSyncer(func() syncer.Item { return b.itemFor("one", "first").In("one") })),
		fx.Module("second", syncer.AsSyncer(func() (syncer.Item, error) { return b.itemFor("two", "second").In("two"), nil })),
		syncer.AsSyncer(func() syncer.Item { return syncer.Part(&early{name: "both", diary: d}) }),
	)
	app.RequireStart()
	b.run(t)
	for value, pair := range map[string]string{"first": "one", "second": "two"} {
		up := b.original(value, nil)
		up.Labels = map[string]string{"for": value}
		must(t, b.up.Create(t.Context(), up))
		down := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.downNS, Name: value + "-x-" + b.upNS + "-x-" + pair}}
		eventually(t, func() error { return b.down.Get(t.Context(), client.ObjectKeyFromObject(down), down) })
	}
	var list corev1.ConfigMapList
	must(t, b.down.List(t.Context(), &list, client.InNamespace(b.downNS), client.HasLabels{b.pair.Identity().Keys().ManagedBy}))
	testkit.Equal(t, len(list.Items), 2, "copies")
	testkit.Equal(t, len(d.entries()), 4, "calls of the Items of each pair")
	app.RequireStop()
}

// Mistakes fail the App when it is built or started.
// Promise: Module, AsSyncer: the same with fx: items of any module of the app.
func TestModule_Errors(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	errInit := errors.New("of Init")
	manager := fx.Provide(func() ctrl.Manager { return b.manager })
	for _, wrong := range []any{42, func() int { return 1 }, nil} {
		testkit.ErrorIs(t, fx.New(fx.NopLogger, manager, syncer.AsSyncer(wrong)).Err(), syncer.ErrInvalidConfig, "the constructor", wrong)
	}
	if err := fx.New(fx.NopLogger, manager, syncer.Module(b.pairNamed("Not a label"))).Err(); !errors.Is(err, syncer.ErrInvalidConfig) {
		t.Errorf("a pair without a valid name: %v", err)
	}
	fails := &early{name: "fails", diary: &diary{}, init: func(context.Context, *syncer.Pair) error { return errInit }}
	app := fx.New(fx.NopLogger, manager, syncer.Module(b.pairNamed("one")), syncer.AsSyncer(func() syncer.Item { return syncer.Part(fails) }))
	must(t, app.Err())
	testkit.ErrorIs(t, app.Start(t.Context()), errInit, "the start of an App whose Initializer fails")
}
