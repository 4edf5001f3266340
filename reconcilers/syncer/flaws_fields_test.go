// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// Two pairs with different identities copy the same objects into the same namespace, in one process.
// Promise: identities belong to pairs, not to the process.
func TestD7_IdentitiesBelongToPairs(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	tenant := b.upNS + "-second"
	second, err := syncer.NewPair(syncer.PairOptions{
		Name: "second", Manager: b.manager, Upstream: syncer.InProcess(b.upHost), Downstream: syncer.InProcess(b.downHost),
		Identity: syncer.Identity{Tenant: tenant, TargetNamespace: b.downNS}, OneToOne: true,
	})
	must(t, err)
	must(t, syncer.Register(second, &syncer.Copy[*corev1.ConfigMap]{Called: "configmaps"},
		syncer.NewNamespaced[*corev1.ConfigMap](second.Identity(), syncer.TranslatorOptions{}),
		syncer.Options[*corev1.ConfigMap]{Select: b.inTest}))
	b.run(t)
	up := b.original("a", map[string]string{"k": "1"})
	must(t, b.up.Create(t.Context(), up))
	b.wait(t, "a", map[string]string{"k": "1"})
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.downNS, Name: "a-x-" + b.upNS + "-x-" + tenant}}
	eventually(t, func() error { return b.down.Get(t.Context(), client.ObjectKeyFromObject(other), other) })
	keys := second.Identity().Keys()
	testkit.Equal(t, other.Labels[keys.ManagedBy], tenant, "the second copy belongs to")
	must(t, b.up.Delete(t.Context(), up))
	fleettest.Gone(t, b.down, b.copyOf("a"))
	fleettest.Gone(t, b.down, other)
	fleettest.Gone(t, b.up, up)
}

// Two pairs in opposite directions, with marks of their own, copy nothing in a circle: a copy of one is no original of the other.
func TestPairs_InOppositeDirections(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	back, err := syncer.NewPair(syncer.PairOptions{
		Name: "back", Manager: b.manager, Upstream: syncer.InProcess(b.downHost), Downstream: syncer.InProcess(b.upHost),
		Identity: syncer.Identity{Tenant: b.downNS, TargetNamespace: b.upNS, KeyPrefix: "back.example.com"},
	})
	must(t, err)
	must(t, syncer.Register(back, &syncer.Copy[*corev1.ConfigMap]{Called: "configmaps"},
		syncer.NewNamespaced[*corev1.ConfigMap](back.Identity(), syncer.TranslatorOptions{}),
		syncer.Options[*corev1.ConfigMap]{Select: func(up *corev1.ConfigMap) bool { return up.Namespace == b.downNS && up.Name != "kube-root-ca.crt" }}))
	b.run(t)
	must(t, b.up.Create(t.Context(), b.original("a", nil)))
	b.wait(t, "a", nil)
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.downNS, Name: "theirs"}}
	must(t, b.down.Create(t.Context(), theirs)) // Both pairs have seen the first copy when its copy is there.
	name := syncer.NewNamespaced[*corev1.ConfigMap](back.Identity(), syncer.TranslatorOptions{}).ToDownstream(client.ObjectKeyFromObject(theirs))[0]
	eventually(t, func() error { return b.up.Get(t.Context(), name, &corev1.ConfigMap{}) })
	b.barrier(t, "circle")
	for ns, c := range map[string]client.Client{b.upNS: b.up, b.downNS: b.down} {
		var all corev1.ConfigMapList
		must(t, c.List(t.Context(), &all, client.InNamespace(ns)))
		var names []string
		for _, one := range all.Items {
			if !strings.HasPrefix(one.Name, "barrier") && one.Name != "kube-root-ca.crt" {
				names = append(names, one.Name)
			}
		}
		testkit.Equal(t, len(names), 2, ns, "has", names)
	}
}

// The owner of a copy is the owner of the identity, and by default there is none.
// Promise: the deletion of an owner deletes no copies of others.
func TestD8_TheOwnerIsThatOfTheIdentity(t *testing.T) {
	t.Parallel()
	for _, owned := range []bool{false, true} {
		t.Run(fmt.Sprint(owned), func(t *testing.T) {
			t.Parallel()
			var want []metav1.OwnerReference
			b := newBench(t, nil)
			if owned {
				owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.downNS, Name: "owner"}}
				must(t, b.down.Create(t.Context(), owner))
				want = []metav1.OwnerReference{{APIVersion: "v1", Kind: configMap, Name: owner.Name, UID: owner.UID}}
				b.begin(t, func(o *syncer.PairOptions) { o.Identity.Owner = want[0] })
			}
			b.copies(t, syncer.Options[*corev1.ConfigMap]{})
			b.run(t)
			up := b.original("a", nil)
			up.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "theirs", UID: "1"}}
			must(t, b.up.Create(t.Context(), up))
			testkit.Equal(t, b.wait(t, "a", nil).OwnerReferences, want)
		})
	}
}

// A conflict is repeated without an event, and the fields of other clients survive all writes.
// Promise: a conflict of versions is tried again without an event.
func TestD9_ConflictsAreSilentAndFieldsSurvive(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var armed, raced atomic.Bool
	race := func(ctx context.Context, obj *corev1.ConfigMap) (*corev1.ConfigMap, error) {
		if !armed.CompareAndSwap(true, false) {
			return obj, nil
		}
		raced.Store(true)
		return obj, b.down.Patch(ctx, b.copyOf("a"), client.RawPatch(types.MergePatchType, []byte(`{"data":{"theirs":"1"}}`)))
	}
	b.copies(t, syncer.Options[*corev1.ConfigMap]{Hooks: []syncer.ClientHook[*corev1.ConfigMap]{{
		Name: "race", Downstream: syncer.Mutators[*corev1.ConfigMap]{Update: race},
	}}})
	b.run(t)
	up := b.original("a", map[string]string{"k": "1"})
	must(t, b.up.Create(t.Context(), up))
	b.wait(t, "a", map[string]string{"k": "1"})
	armed.Store(true)
	must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"2"}}`))))
	b.wait(t, "a", map[string]string{"k": "2", "theirs": "1"})
	if !raced.Load() {
		t.Fatal("there was no conflict")
	}
	var list eventsv1.EventList
	must(t, b.up.List(t.Context(), &list, client.InNamespace(b.upNS)))
	for _, e := range list.Items {
		t.Errorf("event %s: %s", e.Reason, e.Note)
	}
}

// Labels are copied as they are, labels that only the copy has survive, and keys are hashed on request.
// Promise: labels: verbatim, without reserved keys; hashed keys as an option, also in selectors.
func TestD10_LabelsAreCopiedVerbatim(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	hashed, err := syncer.NewPair(syncer.PairOptions{
		Name: "hashed", Manager: b.manager, Upstream: syncer.InProcess(b.upHost), Downstream: syncer.InProcess(b.downHost),
		Identity: syncer.Identity{Tenant: "vc1", TargetNamespace: b.downNS, KeyPrefix: "vcluster.loft.sh"}, OneToOne: true,
	})
	must(t, err)
	must(t, syncer.Register(hashed, &syncer.Copy[*corev1.ConfigMap]{Called: "hashed"},
		syncer.NewNamespaced[*corev1.ConfigMap](hashed.Identity(), syncer.TranslatorOptions{HashLabels: true}),
		syncer.Options[*corev1.ConfigMap]{Select: b.inTest}))
	b.run(t)
	up := b.original("a", nil)
	up.Labels = map[string]string{"app": "web", "tier": "front"}
	must(t, b.up.Create(t.Context(), up))
	b.label(t, b.down, b.wait(t, "a", nil), "host-only", "1")
	must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"db","tier":null}}}`))))
	want := map[string]string{"app": "db", "host-only": "1"}
	b.expectLabels(t, b.copyOf("a"), b.pair.Identity().KeyPrefix, want)

	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.downNS, Name: "a-x-" + b.upNS + "-x-vc1"}}
	b.expectLabels(t, other, "", map[string]string{
		"vcluster.loft.sh/label-vc1-x-a172cedcae": "db",
		"vcluster.loft.sh/managed-by":             "vc1", "vcluster.loft.sh/namespace": b.upNS,
	})
}

// expectLabels waits until an object downstream has the labels, without those with a prefix.
func (b *bench) expectLabels(t *testing.T, obj *corev1.ConfigMap, without string, want map[string]string) {
	t.Helper()
	eventually(t, func() error {
		if err := b.down.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		got := map[string]string{}
		for key, value := range obj.Labels {
			if without == "" || !strings.HasPrefix(key, without+"/") {
				got[key] = value
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// Typed objects are never nil, and translators work with empty ones.
// Promise: no function gets a nil object.
func TestD11_NothingIsNil(t *testing.T) {
	t.Parallel()
	var _ syncer.Syncer[*corev1.ConfigMap] = &syncer.Copy[*corev1.ConfigMap]{}
	id := syncer.Identity{Tenant: "t", TargetNamespace: "n"}
	for name, translator := range map[string]syncer.Translator[*corev1.ConfigMap]{
		"namespaced": syncer.NewNamespaced[*corev1.ConfigMap](id, syncer.TranslatorOptions{Kind: corev1.SchemeGroupVersion.WithKind(configMap)}),
		"cluster":    syncer.NewCluster[*corev1.ConfigMap](id, syncer.TranslatorOptions{Kind: corev1.SchemeGroupVersion.WithKind(configMap)}),
		"mirror":     syncer.NewMirror[*corev1.ConfigMap](id, syncer.TranslatorOptions{Kind: corev1.SchemeGroupVersion.WithKind(configMap)}),
	} {
		empty := &corev1.ConfigMap{}
		testkit.Equal(t, len(translator.ToDownstream(types.NamespacedName{})), 0, name, "copies of no name")
		if up, ours := translator.ToUpstream(empty); ours {
			t.Errorf("%s: an empty object is the copy of %v", name, up)
		}
		testkit.Equal(t, translator.Owner(empty, "uid"), syncer.Foreign, name, "owner of an empty object")
		testkit.Equal(t, translator.Metadata(empty, types.NamespacedName{Name: "a"}).Name, "a", name, "the copy of an empty object")
		if changed, annotations, labels := translator.MetadataUpdate(empty, empty); !changed || len(annotations) == 0 || len(labels) == 0 {
			t.Errorf("%s: the update of an empty object has no marks", name)
		}
	}
}

// Copies without a namespace are found again from their marks: a deleted copy is made again, and one without an original
// is deleted.
// Promise: mapping back: from the marks, which have to fit the object; never from a part of a name.
func TestD12_ClusterScopedCopiesAreMappedBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	translator := syncer.NewCluster[*rbacv1.ClusterRole](b.pair.Identity(), syncer.TranslatorOptions{Kind: rbacv1.SchemeGroupVersion.WithKind("ClusterRole")})
	must(t, syncer.Register(b.pair, &syncer.Copy[*rbacv1.ClusterRole]{Called: "roles"}, translator, syncer.Options[*rbacv1.ClusterRole]{
		Select: func(up *rbacv1.ClusterRole) bool { return up.Labels["test"] == b.upNS },
	}))
	b.run(t)
	up := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "role." + b.upNS, Labels: map[string]string{"test": b.upNS}}}
	must(t, b.up.Create(t.Context(), up))
	found := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: translator.ToDownstream(client.ObjectKeyFromObject(up))[0].Name}}
	eventually(t, func() error { return b.down.Get(t.Context(), client.ObjectKeyFromObject(found), found) })
	if key, ours := translator.ToUpstream(found); !ours || key != client.ObjectKeyFromObject(up) {
		t.Errorf("%s is mapped back to %v, %v", found.Name, key, ours)
	}
	before := found.UID
	must(t, b.down.Delete(t.Context(), found))
	eventually(t, func() error {
		if err := b.down.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
			return err
		}
		if found.UID == before {
			return errors.New("the copy is not deleted yet")
		}
		return nil
	})
	must(t, b.up.Delete(t.Context(), up))
	fleettest.Gone(t, b.down, found)
	fleettest.Gone(t, b.up, up)
}

// Nothing of a Secret gets into logs, events and annotations, whatever fails.
// Promise: events repeat no text of the downstream side, unless it is made fit.
func TestD13_NoSecretLeaks(t *testing.T) {
	t.Parallel()
	const secret = "do-not-repeat-this"
	var mu sync.Mutex
	var logged strings.Builder
	write := func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintln(&logged, prefix, args)
	}
	b := newBench(t, nil)
	// From level 8 on client-go itself logs the bodies of all requests.
	b.process(t, ctrl.Options{Logger: funcr.New(write, funcr.Options{Verbosity: 7})}, nil)
	s := &syncer.Copy[*corev1.Secret]{Called: "secrets", Mutate: func(_ context.Context, up, _ *corev1.Secret) error {
		switch up.Name {
		case "fails":
			return errors.New("refused on purpose")
		case "panics":
			panic("on purpose")
		}
		return nil
	}}
	must(t, syncer.Register(b.pair, s, syncer.NewNamespaced[*corev1.Secret](b.pair.Identity(), syncer.TranslatorOptions{}),
		syncer.Options[*corev1.Secret]{Select: func(up *corev1.Secret) bool { return up.Namespace == b.upNS }}))
	name := func(up string) string { return up + "-x-" + b.upNS + "-x-" + b.upNS }
	meta := metav1.ObjectMeta{Namespace: b.downNS, Name: name("conflict")}
	must(t, b.down.Create(t.Context(), &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"k": []byte(secret + "-foreign")}}))
	b.run(t)
	for _, one := range []string{"fails", "panics", "conflict", "rejected"} {
		must(t, b.up.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.upNS, Name: one}, Data: map[string][]byte{"k": []byte(secret)},
		}))
	}
	b.expectEvent(t, "conflict", syncer.ReasonNameConflict, name("conflict"))
	copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.downNS, Name: name("rejected")}}
	eventually(t, func() error { return b.down.Get(t.Context(), client.ObjectKeyFromObject(copied), copied) })
	must(t, b.down.Patch(t.Context(), copied, client.RawPatch(types.MergePatchType, []byte(`{"immutable":true}`))))
	up := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.upNS, Name: "rejected"}}
	must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"k":"`+secret+`-2"}}`))))
	b.expectEvent(t, "rejected", syncer.ReasonRejected, "data")
	eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(logged.String(), "refused on purpose") || !strings.Contains(logged.String(), "panic") {
			return errors.New("the errors are not in the log yet")
		}
		return nil
	})
	b.stop()
	var events eventsv1.EventList
	must(t, b.up.List(t.Context(), &events, client.InNamespace(b.upNS)))
	noted, err := json.Marshal(events)
	must(t, err)
	copied.ManagedFields = nil
	metadata, err := json.Marshal(copied.ObjectMeta)
	must(t, err)
	for what, text := range map[string]string{"log": logged.String(), "events": string(noted), "metadata of the copy": string(metadata)} {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
			if strings.Contains(text, form) {
				at := strings.Index(text, form)
				t.Errorf("the %s contains the secret: %s", what, text[max(0, at-500):min(len(text), at+100)])
			}
		}
	}
}
