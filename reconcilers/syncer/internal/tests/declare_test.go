// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/side"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// An object that a watch has reported as deleted is evidence, but not one that went with its Namespace.
func TestView_Declare(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		testkit.Must(t, err)
	}
	config := fleettest.Cluster(t, "declare").Config()
	admin := fleettest.ClientFor(t, config)
	mgr, err := ctrl.NewManager(config, ctrl.Options{Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}})
	must(err)
	view, err := side.InProcess(mgr).Open(side.Want{Object: &corev1.ConfigMap{}})
	must(err)
	there, gone := make(chan types.NamespacedName, 100), make(chan types.NamespacedName, 10)
	must(builder.TypedControllerManagedBy[reconcile.Request](mgr).Named("declare").WatchesRawSource(view.Requests(
		func(_ context.Context, obj client.Object, deleted bool) []types.NamespacedName {
			switch key := client.ObjectKeyFromObject(obj); {
			case deleted:
				gone <- key
			case strings.HasPrefix(key.Namespace, "declare-") && obj.GetName() == "a":
				there <- key
			}
			return nil
		})).Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		must(<-done)
	}()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache has no objects")
	}
	for namespace, want := range map[string]bool{"declare-stays": true, "declare-goes": false} {
		in := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
		must(errors.Join(admin.Create(ctx, in), admin.Create(ctx, one)))
		<-there
		if !want {
			must(admin.Delete(ctx, in))
		}
		must(admin.Delete(ctx, one))
		key := <-gone
		declared, err := view.Declare(ctx, key)
		must(err)
		if _, got := deletes.EvidenceOf(declared); got != want {
			t.Errorf("%s: evidence is %t, want %t", namespace, got, want)
		}
	}
}
