// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// upSyncer makes upstream objects for the downstream objects with the label import.
type upSyncer struct {
	syncer.Copy[*corev1.ConfigMap]
	namespace string
	asked     atomic.Int32
}

func (u *upSyncer) UpstreamName(down *corev1.ConfigMap) (types.NamespacedName, bool) {
	return types.NamespacedName{Namespace: u.namespace, Name: down.Name}, down.Labels["import"] == u.namespace
}

func (u *upSyncer) SyncUp(ctx context.Context, e syncer.Up[*corev1.ConfigMap]) (reconcile.Result, error) {
	u.asked.Add(1)
	return reconcile.Result{}, e.CreateUpstream(ctx, e.Downstream)
}

// A foreign object at the name of a copy is never written, in no branch, and the upstream object gets an event.
// Promise: an object in the way is named in an event.
func TestD1_AForeignObjectIsNeverWritten(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Syncer", "UpSyncer"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			up := &upSyncer{Copy: syncer.Copy[*corev1.ConfigMap]{Called: "configmaps"}, namespace: b.upNS}
			var s syncer.Syncer[*corev1.ConfigMap] = &up.Copy
			if kind == "UpSyncer" {
				s = up
			}
			b.register(t, s, syncer.Options[*corev1.ConfigMap]{})
			foreign := b.copyOf("a")
			foreign.Data = map[string]string{"theirs": "1"}
			must(t, b.down.Create(t.Context(), foreign))
			b.run(t)

			original := b.original("a", map[string]string{"ours": "1"})
			must(t, b.up.Create(t.Context(), original))
			b.expectEvent(t, "a", syncer.ReasonNameConflict, foreign.Name)
			b.barrier(t, "changed")
			b.expectUnchanged(t, foreign)

			must(t, b.up.Delete(t.Context(), original))
			fleettest.Gone(t, b.up, original)
			b.barrier(t, "deleted")
			b.expectUnchanged(t, foreign)

			held := b.original("a", map[string]string{"ours": "2"})
			held.Finalizers = []string{"example.com/held"}
			must(t, b.up.Create(t.Context(), held))
			must(t, b.up.Delete(t.Context(), held))
			b.barrier(t, "terminating")
			b.expectUnchanged(t, foreign)
			must(t, b.up.Patch(t.Context(), held, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			fleettest.Gone(t, b.up, held)
			b.barrier(t, "gone")
			b.expectUnchanged(t, foreign)
			testkit.Equal(t, up.asked.Load(), 0, "calls of SyncUp for an object that UpstreamName refuses")
		})
	}
}

// When the foreign object has gone, the copy is made at once, however long the pause of the conflict is.
func TestD1_TheCopyAppearsWhenTheForeignObjectGoes(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	b := newBench(t, func(o *syncer.PairOptions) { o.Metrics = metrics })
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	foreign := b.copyOf("a")
	must(t, b.down.Create(t.Context(), foreign))
	b.run(t)
	original := b.original("a", map[string]string{"k": "1"})
	must(t, b.up.Create(t.Context(), original))
	// Each attempt doubles the pause: after eight of them it is longer than the test waits.
	for n := range 8 {
		eventually(t, func() error {
			if got := sum(t, metrics, "clusterfx_sync_name_conflicts_total"); got <= float64(n) {
				return fmt.Errorf("%v conflicts", got)
			}
			return nil
		})
		b.label(t, b.up, original, "attempt", fmt.Sprint(n))
	}
	begin := time.Now()
	must(t, b.down.Delete(t.Context(), foreign))
	b.wait(t, "a", map[string]string{"k": "1"})
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("the copy appears after %v", took)
	}
}

// Two objects whose names in the form of vcluster are equal both have a copy, and each copy names its original.
// Promise: two pairs with one target namespace, tenants whose names collide in the published scheme, nested tenants: no interference.
func TestD2_NamesThatCollide(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b-x-" + b.upNS}}
	must(t, b.up.Create(t.Context(), other))
	b.copies(t, syncer.Options[*corev1.ConfigMap]{Select: func(up *corev1.ConfigMap) bool { return up.Labels["test"] == b.upNS }})
	b.run(t)
	want := map[types.NamespacedName]string{
		{Namespace: other.Name, Name: "a"}:   "first",
		{Namespace: b.upNS, Name: "a-x-b"}:   "second",
		{Namespace: other.Name, Name: "c"}:   "third",
		{Namespace: b.upNS, Name: "a.b"}:     "fourth",
		{Namespace: b.upNS, Name: "a-b"}:     "fifth",
		{Namespace: b.upNS, Name: long("a")}: "sixth",
		{Namespace: b.upNS, Name: long("b")}: "seventh",
	}
	for key, data := range want {
		must(t, b.up.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{"test": b.upNS}},
			Data:       map[string]string{"k": data},
		}))
	}
	translator := b.translator()
	eventually(t, func() error {
		var list corev1.ConfigMapList
		if err := b.down.List(t.Context(), &list, client.InNamespace(b.downNS)); err != nil {
			return err
		}
		got := map[types.NamespacedName]string{}
		for i := range list.Items {
			if up, ours := translator.ToUpstream(&list.Items[i]); ours {
				got[up] += list.Items[i].Data["k"]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func long(end string) string { return strings.Repeat("n", 70) + end }

// A copy is not deleted because the cache does not have its original: the API server decides.
// Promise: a cache that is stale or empty deletes no copies.
func TestD3_AnEmptyCacheDeletesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *syncer.PairOptions) {
		o.OneToOne = false
		seen, err := cluster.New(fleettest.Cluster(t, "up").Config(), func(c *cluster.Options) {
			c.Cache.ByObject = map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: labelSelector(t, "cached=yes")}}
		})
		must(t, err)
		must(t, o.Manager.Add(seen))
		o.Upstream = syncer.InProcess(seen)
	})
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	up := b.cached("a")
	must(t, b.up.Create(t.Context(), up))
	before := b.wait(t, "a", nil)
	b.label(t, b.up, up, "cached", "no")
	marker := b.cached("marker")
	must(t, b.up.Create(t.Context(), marker))
	b.wait(t, "marker", nil)
	b.expectUnchanged(t, before)

	must(t, b.up.Delete(t.Context(), marker)) // That one is really gone.
	fleettest.Gone(t, b.down, b.copyOf("marker"))
	b.expectUnchanged(t, before)
}

// An error of the upstream API server is not the absence of an object.
// Promise: an error is not absence.
func TestD3_ErrorsAreNotAbsence(t *testing.T) {
	t.Parallel()
	proxy := fleettest.Proxy(t, fleettest.Cluster(t, "up").Server())
	b := newBench(t, func(o *syncer.PairOptions) {
		o.OneToOne = false
		config := fleettest.Cluster(t, "up").Config()
		config.Host = "https://" + proxy.Addr()
		far, err := cluster.New(config)
		must(t, err)
		must(t, o.Manager.Add(far))
		o.Upstream = syncer.InProcess(far)
	})
	var refused, asked atomic.Bool
	b.copies(t, syncer.Options[*corev1.ConfigMap]{Select: func(up *corev1.ConfigMap) bool {
		asked.Store(asked.Load() || refused.Load())
		return up.Namespace == b.upNS && !refused.Load() && up.Name != "kube-root-ca.crt"
	}})
	b.run(t)
	must(t, b.up.Create(t.Context(), b.original("a", nil)))
	found := b.wait(t, "a", nil)
	must(t, proxy.Set(fault.Refuse()))
	refused.Store(true)
	b.label(t, b.down, found, "touched", "1")
	eventually(t, func() error {
		if !asked.Load() {
			return errors.New("the object is not reconciled")
		}
		return nil
	})
	b.label(t, b.down, found, "touched", "2")
	b.expectUnchanged(t, found)
	must(t, proxy.Set(fault.Pass()))
	fleettest.Gone(t, b.down, found) // The API server confirms that the object is not selected.
}

// An object that replaces the copy between the read and the delete is not deleted.
func TestD3_AReplacedCopyIsNotDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	foreign := b.copyOf("a")
	foreign.Data = map[string]string{"theirs": "1"}
	var once atomic.Bool
	replace := func(ctx context.Context, obj *corev1.ConfigMap) (*corev1.ConfigMap, error) {
		if !once.CompareAndSwap(false, true) {
			return obj, nil
		}
		return obj, errors.Join(b.down.Delete(ctx, b.copyOf("a")), b.down.Create(ctx, foreign))
	}
	b.copies(t, syncer.Options[*corev1.ConfigMap]{Hooks: []syncer.ClientHook[*corev1.ConfigMap]{{
		Name: "replace", Downstream: syncer.Mutators[*corev1.ConfigMap]{Delete: replace},
	}}})
	b.run(t)
	up := b.original("a", nil)
	must(t, b.up.Create(t.Context(), up))
	b.wait(t, "a", nil)
	must(t, b.up.Delete(t.Context(), up))
	fleettest.Gone(t, b.up, up)
	b.expectUnchanged(t, foreign)
}
