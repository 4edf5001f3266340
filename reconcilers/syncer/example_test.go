// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"context"

	"go.uber.org/fx"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
)

// shared is the pair of the hub and the remote of an app.
func shared(p registry.Remote) (*syncer.Pair, error) {
	return syncer.NewPair(syncer.PairOptions{
		Name: "shared", Manager: p.Manager, Quote: p.Quote,
		Upstream: syncer.OfHub(p, syncer.HubSelection{
			Labels: labels.SelectorFromSet(labels.Set{"sync": "everywhere"}), Route: hubobjects.All(),
		}),
		Downstream: syncer.OfRemote(p),
		Identity:   syncer.Identity{Tenant: "hub", TargetNamespace: "platform"},
	})
}

// Secrets of the hub are copied to each remote. The module is added to a hub like any other.
func ExampleRegister() {
	add := func(p registry.Remote) error {
		pair, err := shared(p)
		if err != nil {
			return err
		}
		translator := syncer.NewNamespaced[*corev1.Secret](pair.Identity(), syncer.TranslatorOptions{})
		return syncer.Register(pair, &syncer.Copy[*corev1.Secret]{Called: "secrets"}, translator, syncer.Options[*corev1.Secret]{})
	}
	_ = registry.NewModule("shared-secrets", registry.ModuleOptions{Remote: fx.Invoke(add)})
}

// Items of several modules belong to the pair of one Module.
func ExampleModule() {
	pair := syncer.Module(shared)
	secrets := syncer.AsSyncer(func() syncer.Item {
		id := syncer.Identity{Tenant: "hub", TargetNamespace: "platform"}
		return syncer.Of(&syncer.Copy[*corev1.Secret]{Called: "secrets"},
			syncer.NewNamespaced[*corev1.Secret](id, syncer.TranslatorOptions{}), syncer.Options[*corev1.Secret]{})
	})
	_ = registry.NewModule("shared-secrets", registry.ModuleOptions{Remote: fx.Options(pair, secrets)})
}

// scaled copies Deployments. The downstream cluster decides about the number of replicas, which the original reports.
type scaled struct{}

// Name returns the name of the syncer.
func (scaled) Name() string { return "deployments" }

// SyncDown makes the copy.
func (scaled) SyncDown(ctx context.Context, e syncer.Down[*appsv1.Deployment]) (reconcile.Result, error) {
	return reconcile.Result{}, e.Apply(ctx, e.Translate(e.Upstream))
}

// Sync brings the copy up to date, and reports the replicas upstream.
func (s scaled) Sync(ctx context.Context, e syncer.Both[*appsv1.Deployment]) (reconcile.Result, error) {
	status := e.Upstream.DeepCopy()
	status.Status.Replicas = e.Downstream.Status.Replicas
	if err := e.ApplyStatus(ctx, status); err != nil {
		return reconcile.Result{}, err
	}
	copied := e.Translate(e.Upstream)
	copied.Spec.Replicas = nil
	return reconcile.Result{}, e.Apply(ctx, copied)
}

// A kind with rules of its own has a Syncer of its own.
func ExampleSyncer() {
	add := func(p registry.Remote) error {
		pair, err := shared(p)
		if err != nil {
			return err
		}
		return syncer.Register(pair, scaled{}, syncer.NewNamespaced[*appsv1.Deployment](pair.Identity(), syncer.TranslatorOptions{}),
			syncer.Options[*appsv1.Deployment]{})
	}
	_ = fx.Invoke(add)
}
