// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
)

// mirror is a module without any precaution: while its source looks empty, it deletes the ConfigMaps that it finds.
func mirror(empty *atomic.Bool) registry.Module {
	return registry.NewModule("mirror", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return registry.ControllerManagedBy(p.Manager).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
			func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
				switch {
				case !strings.HasPrefix(r.Namespace, mirrored):
					return ctrl.Result{}, nil
				case !empty.Load():
					return ctrl.Result{RequeueAfter: 200 * time.Millisecond}, nil
				}
				one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
				return ctrl.Result{}, client.IgnoreNotFound(p.Client.Delete(ctx, one))
			}))
	})})
}

const mirrored = "mirrored-"

// copies makes a namespace with so many ConfigMaps.
func copies(t *testing.T, c client.Client, namespace string, objects int) {
	t.Helper()
	testkit.Must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})))
	for i := range objects {
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("o-%03d", i)}}
		testkit.Must(t, c.Create(t.Context(), one))
	}
}

func countIn(t *testing.T, c client.Client, namespace string) int {
	t.Helper()
	var all corev1.ConfigMapList
	testkit.Must(t, c.List(t.Context(), &all, client.InNamespace(namespace)))
	return len(all.Items)
}

// A source that looks empty costs a remote 20 objects. The hold is shown, survives a restart, lets pass what an operator
// allows, and ends when the source is back.
func TestCluster_DeletesHeld(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	var empty atomic.Bool
	h := newIdleHub(t, func(o *hubOptions) {
		o.modules = []registry.Module{mirror(&empty)}
		o.registry.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	h.options.registry.Holds = client.ObjectKey{Namespace: h.namespace, Name: cluster.HoldsName}
	h.start()
	defer func() { h.stop() }()
	name, remote := h.name("a"), fleettest.Cluster(t, "one")
	outside := clientFor(t, remote)
	namespace := mirrored + h.namespace
	copies(t, outside, namespace, 50)
	h.putKubeconfig(name, remote.Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)

	empty.Store(true)
	began := time.Now()
	c := h.expect(name, hubv1.ConditionDeletesHeld, metav1.ConditionTrue, hubv1.ReasonLimitExceeded)
	t.Logf("held after %s: %s", time.Since(began), summary(c))
	h.expectReady(name)
	h.expectEvent(name, hubv1.ReasonLimitExceeded)
	left := func(want int) {
		t.Helper()
		h.consistently(time.Second, func() error {
			if got := countIn(t, outside, namespace); got < want {
				return fmt.Errorf("%d objects are left, want %d", got, want)
			}
			return nil
		})
	}
	left(30)
	id := h.registry.HeldDeletes()[0].ID

	h.stop()
	h.start()
	h.expect(name, hubv1.ConditionDeletesHeld, metav1.ConditionTrue, hubv1.ReasonLimitExceeded)
	left(30)

	h.change(name, func(c *hubv1.Cluster) {
		c.Annotations = map[string]string{hubv1.AnnotationAllowDeletes: "mirror-configmaps-0000=30"}
	})
	left(30)
	h.change(name, func(c *hubv1.Cluster) { c.Annotations[hubv1.AnnotationAllowDeletes] = id + "=5" })
	touch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"yes"}}}`))
	for i := range 50 { // So that the module does not wait for its next try.
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("o-%03d", i)}}
		h.must(client.IgnoreNotFound(outside.Patch(t.Context(), one, touch)))
	}
	h.eventually(func() error {
		if got := countIn(t, outside, namespace); got != 25 {
			return fmt.Errorf("%d objects are left, want 25", got)
		}
		return nil
	})
	left(25)

	empty.Store(false)
	h.eventually(func() error {
		ahead.Add(int64(11 * time.Minute))
		if c := h.get(name); meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionDeletesHeld) != nil {
			return fmt.Errorf("still held: %s", summary(c))
		}
		return nil
	})
	if held := h.registry.HeldDeletes(); len(held) > 0 || countIn(t, outside, namespace) != 25 {
		t.Errorf("holds: %+v", held)
	}
}
