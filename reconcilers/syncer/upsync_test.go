// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// following is an UpSyncer whose upstream objects follow their sources.
type following struct{ upSyncer }

func (f *following) Sync(ctx context.Context, e syncer.Both[*corev1.ConfigMap]) (reconcile.Result, error) {
	if !e.Imported {
		return f.Copy.Sync(ctx, e)
	}
	if err := e.Apply(ctx, e.Upstream); !errors.Is(err, syncer.ErrForeign) {
		return reconcile.Result{}, errors.New("the source of an imported object was written")
	}
	if cmp.Equal(e.Upstream.Data, e.Downstream.Data) {
		return reconcile.Result{}, nil
	}
	e.Upstream.Data = e.Downstream.Data
	return reconcile.Result{}, e.UpdateUpstream(ctx, e.Upstream)
}

func (b *bench) waitUp(t *testing.T, name, value string) *corev1.ConfigMap {
	t.Helper()
	up := b.original(name, nil)
	eventually(t, func() error {
		if err := b.up.Get(t.Context(), client.ObjectKeyFromObject(up), up); err != nil {
			return err
		}
		if up.Data["k"] != value {
			return errors.New("the upstream object has " + up.Data["k"])
		}
		return nil
	})
	return up
}

// An UpSyncer makes an upstream object, keeps it in step and deletes it with its source, which is never written.
// Promise: UpSyncer: SyncUp for a downstream object without an upstream one; without it, a copy is deleted and other objects are left alone.
func TestUpSyncer_TheLifeOfAnImportedObject(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.register(t, &following{upSyncer{Copy: syncer.Copy[*corev1.ConfigMap]{Called: "import"}, namespace: b.upNS}}, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	source := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.downNS, Name: "source", Labels: map[string]string{"import": b.upNS, "sync.clusterfx.dev/managed-by": "another"}, Finalizers: []string{"example.com/theirs"}},
		Data:       map[string]string{"k": "1"},
	}
	must(t, b.down.Create(t.Context(), source))
	up := b.waitUp(t, "source", "1")
	if len(up.Finalizers) != 0 || up.UID == source.UID || up.Labels["sync.clusterfx.dev/managed-by"] != "" {
		t.Errorf("the upstream object has metadata of its source: %v", up.ObjectMeta)
	}
	must(t, b.down.Patch(t.Context(), source, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"2"}}`))))
	b.waitUp(t, "source", "2")
	b.expectUnchanged(t, source)

	edited := b.original("edited", map[string]string{"k": "mine"}) // as after kubectl get -o yaml, an edit and kubectl apply
	edited.Annotations = up.Annotations
	must(t, b.up.Create(t.Context(), edited))
	b.wait(t, "edited", map[string]string{"k": "mine"}) // It is an original like any other.
	b.waitUp(t, "edited", "mine")

	before := up.UID
	must(t, b.up.Delete(t.Context(), up)) // The source is still there.
	eventually(t, func() error {
		if b.waitUp(t, "source", "2").UID == before {
			return errors.New("the upstream object is not made again")
		}
		return nil
	})
	must(t, b.down.Patch(t.Context(), source, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	must(t, b.down.Delete(t.Context(), source))
	fleettest.Gone(t, b.up, up)
	if err := b.down.Get(t.Context(), client.ObjectKeyFromObject(b.copyOf("source")), b.copyOf("source")); !apierrors.IsNotFound(err) {
		t.Errorf("the imported object has a copy: %v", err)
	}
}

// An Importer adopts the object that has the name of the copy; without it, the name is in conflict.
// Promise: an Importer adopts an object that exists.
func TestImporter_Adopts(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	c := &syncer.Copy[*corev1.ConfigMap]{Called: "adopt", Adopt: func(_ context.Context, up, down *corev1.ConfigMap) bool {
		return cmp.Equal(up.Data, down.Data)
	}}
	b.register(t, c, syncer.Options[*corev1.ConfigMap]{})
	equal, other := b.copyOf("equal"), b.copyOf("other")
	equal.Data, other.Data = map[string]string{"k": "1"}, map[string]string{"k": "2"}
	must(t, b.down.Create(t.Context(), equal))
	must(t, b.down.Create(t.Context(), other))
	b.run(t)
	up := b.original("equal", map[string]string{"k": "1"})
	must(t, b.up.Create(t.Context(), up))
	must(t, b.up.Create(t.Context(), b.original("other", map[string]string{"k": "1"})))
	b.expectEvent(t, "other", syncer.ReasonNameConflict, other.Name)
	must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"3"}}`))))
	testkit.Equal(t, b.wait(t, "equal", map[string]string{"k": "3"}).UID, equal.UID, "the object is replaced instead of adopted")
	b.expectUnchanged(t, other)
	must(t, b.up.Delete(t.Context(), up))
	fleettest.Gone(t, b.down, equal)
}

// Two originals that have only one name in common get one copy; the second one is told, and gets the name when it is free. An
// Importer does not take the copy away from the first one.
// Promise: the name that a copy has got is remembered: the copy itself is the record.
func TestMirror_TheNameOfACopyOfAnotherObject(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	c := &syncer.Copy[*corev1.ConfigMap]{Called: "mirror", Adopt: func(context.Context, *corev1.ConfigMap, *corev1.ConfigMap) bool { return true }}
	must(t, syncer.Register(b.pair, c, syncer.NewMirror[*corev1.ConfigMap](b.pair.Identity(), syncer.TranslatorOptions{}),
		syncer.Options[*corev1.ConfigMap]{Select: func(up *corev1.ConfigMap) bool { return up.Labels["test"] == b.upNS }}))
	b.run(t)
	one, two := b.original("a", map[string]string{"k": "1"}), b.original("a", map[string]string{"k": "2"})
	two.Namespace = fleettest.Namespace(t, b.up, "syncer-")
	one.Labels, two.Labels = map[string]string{"test": b.upNS}, map[string]string{"test": b.upNS}
	must(t, b.up.Create(t.Context(), two))
	found := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.downNS, Name: "a"}}
	has := func(value string) func() error {
		return func() error {
			if err := b.down.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
				return err
			}
			if found.Data["k"] != value {
				return errors.New("the copy is of " + found.Data["k"])
			}
			return nil
		}
	}
	eventually(t, has("2"))
	must(t, b.up.Create(t.Context(), one))
	b.expectEvent(t, "a", syncer.ReasonNameConflict, "a")
	must(t, has("2")())
	must(t, b.up.Delete(t.Context(), two))
	eventually(t, has("1"))
	fleettest.Gone(t, b.up, two)
}

// fakes makes an upstream object for each name that is requested.
type fakes struct{ b *bench }

func (f *fakes) Name() string { return "fakes" }

func (f *fakes) FakeSyncUp(ctx context.Context, name types.NamespacedName, up syncer.Access) (reconcile.Result, error) {
	if name.Namespace != f.b.upNS {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, up.Client.Create(ctx, f.b.original(name.Name, map[string]string{"k": "fake"}))
}

func (f *fakes) FakeSync(ctx context.Context, obj *corev1.ConfigMap, up syncer.Access) (reconcile.Result, error) {
	if obj.Namespace != f.b.upNS || obj.Name == "kube-root-ca.crt" || obj.Labels["seen"] == "yes" {
		return reconcile.Result{}, nil
	}
	before := obj.DeepCopy()
	obj.Labels = map[string]string{"seen": "yes"}
	return reconcile.Result{}, up.Client.Patch(ctx, obj, client.MergeFrom(before))
}

// A FakeSyncer is called for objects that exist, and for names without an object.
// Promise: FakeSyncer: objects that exist upstream only, also by names that something else mentions.
func TestFakeSyncer(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	must(t, syncer.RegisterFake[*corev1.ConfigMap](b.pair, &fakes{b}, syncer.Options[*corev1.ConfigMap]{}))
	b.run(t)
	up := b.original("a", map[string]string{"k": "real"})
	must(t, b.up.Create(t.Context(), up))
	eventually(t, func() error {
		if b.waitUp(t, "a", "real").Labels["seen"] != "yes" {
			return errors.New("FakeSync is not called")
		}
		return nil
	})
	must(t, b.up.Delete(t.Context(), up))
	b.waitUp(t, "a", "fake")
}
