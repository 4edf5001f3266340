// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry/hubobjects"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// All objects that wait for a name are requested when it is free, once.
func TestMemory_SeveralWaitForOneName(t *testing.T) {
	t.Parallel()
	m := newMemory()
	for _, up := range []string{"a", "b", "a"} {
		m.block(named("taken"), named(up))
	}
	waiting := m.unblock(named("taken"))
	slices.SortFunc(waiting, func(a, b types.NamespacedName) int {
		return len(a.Name) - len(b.Name) + int(a.Name[0]) - int(b.Name[0])
	})
	if !slices.Equal(waiting, []types.NamespacedName{named("a"), named("b")}) {
		t.Errorf("got %v", waiting)
	}
	if again := m.unblock(named("taken")); len(again) != 0 {
		t.Errorf("got %v again", again)
	}
}

// A deletion that is known before the answer to the write is not forgotten because of the answer.
func TestMemory_GoneWhileItIsWritten(t *testing.T) {
	t.Parallel()
	m := newMemory()
	up, down := named("up"), named("down")
	m.begin(up)
	m.exists(up, down)
	m.gone(up, "uid")
	if m.end(up, down, true) || !m.isLost(up, "uid") {
		t.Error("the deletion is forgotten")
	}
	m.begin(up)
	if m.end(up, down, false) || !m.isLost(up, "uid") {
		t.Error("a write that failed has made a copy")
	}
	m.begin(up)
	if name, _ := m.nameOf(up); !m.end(up, down, true) || m.isLost(up, "uid") || name == down {
		t.Error("a write has made no copy")
	}
	if name, ok := m.nameOf(up); !ok || name != down || len(m.writing) != 0 {
		t.Errorf("the copy is %v", name)
	}
}

// Another client deletes a copy if the copy was seen before, and the controller does not delete it itself.
func TestMemory_WhoDeletes(t *testing.T) {
	t.Parallel()
	m := newMemory()
	up := named("up")
	if m.lived(up, "a") || m.lived(up, "") || m.isOwn(up, "") {
		t.Error("an unknown copy is known")
	}
	m.lives(up, "a")
	m.deletes(up, "a")
	if !m.lived(up, "a") || m.lived(up, "b") || !m.isOwn(up, "a") || m.isOwn(up, "b") {
		t.Error("the copy is another one")
	}
	m.spares(up)
	if m.isOwn(up, "a") {
		t.Error("a delete that was refused is remembered")
	}
	m.deletes(up, "a")
	m.block(named("taken"), up)
	m.forget(up)
	if len(m.own)+len(m.alive)+len(m.blocked) > 0 {
		t.Error("something is left of an object that has gone")
	}
}

// A selection is what the view of the hub delivers.
func TestHubSelection_Selects(t *testing.T) {
	t.Parallel()
	obj := func(namespace, cluster, tier string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a", Labels: map[string]string{"cluster": cluster, "tier": tier}}}
	}
	s := HubSelection{
		Labels: labels.SelectorFromSet(labels.Set{"tier": "edge"}), Namespaces: []string{"shop"},
		Route: hubobjects.ByLabel("cluster"), Keys: []string{"one"},
	}
	for what, c := range map[string]struct {
		selection HubSelection
		obj       *corev1.ConfigMap
		want      bool
	}{
		"all of it":                {s, obj("shop", "one", "edge"), true},
		"another namespace":        {s, obj("bank", "one", "edge"), false},
		"other labels":             {s, obj("shop", "one", "core"), false},
		"for another remote":       {s, obj("shop", "two", "edge"), false},
		"the zero selection":       {HubSelection{}, obj("bank", "two", "core"), true},
		"the route to all remotes": {HubSelection{Route: hubobjects.All()}, obj("bank", "two", "core"), true},
	} {
		if got := c.selection.selects(c.obj); got != c.want {
			t.Errorf("%s: %t, want %t", what, got, c.want)
		}
	}
}

// A copy that the cache lacks before its deletion is reported is waited for, for a limited time.
func TestMemory_Awaited(t *testing.T) {
	t.Parallel()
	m := newMemory()
	up, now := named("up"), time.Now()
	if m.awaited(up, now) != 0 {
		t.Error("a copy that was never seen is awaited")
	}
	m.lives(up, "copy")
	if m.awaited(up, now) != reportedWithin || m.awaited(up, now.Add(time.Second)) != reportedWithin-time.Second {
		t.Error("the report is not awaited")
	}
	if m.awaited(up, now.Add(reportedWithin)) != 0 {
		t.Error("the report is awaited for too long")
	}
	m.lives(up, "copy")
	if m.awaited(up, now.Add(reportedWithin)) != reportedWithin {
		t.Error("the time of an earlier absence counts")
	}
	m.gone(up, "")
	if m.awaited(up, now) != 0 {
		t.Error("a copy whose deletion is reported is awaited")
	}
}

// Nothing is left of an object that has gone.
func TestMemory_Forget(t *testing.T) {
	t.Parallel()
	m := newMemory()
	up, down := named("up"), named("down")
	m.exists(up, down)
	m.isSource(up, down)
	m.wrote(up, func(w *write) { w.desired = 1 })
	m.gone(up, "uid")
	m.forget(up)
	if n := len(m.names) + len(m.sources) + len(m.lost) + len(m.written); n > 0 {
		t.Errorf("%d entries are left", n)
	}
}

// importing is an UpSyncer.
type importing struct{ Copy[*corev1.ConfigMap] }

func (*importing) UpstreamName(*corev1.ConfigMap) (name types.NamespacedName, ok bool) {
	return name, false
}

func (*importing) SyncUp(context.Context, Up[*corev1.ConfigMap]) (reconcile.Result, error) {
	return reconcile.Result{}, nil
}

// A pair watches only its own copies in a hub, so an UpSyncer would see nothing there.
func TestRegister_UpSyncerOfTheHub(t *testing.T) {
	t.Parallel()
	id := Identity{Tenant: "t", TargetNamespace: "default", KeyPrefix: "example.com"}
	p := &Pair{options: PairOptions{Name: "p", Identity: id, Downstream: Side{inner: &hubSide{}}}}
	o := Options[*corev1.ConfigMap]{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap")}
	err := Register(p, Syncer[*corev1.ConfigMap](&importing{Copy[*corev1.ConfigMap]{Called: "import"}}), NewNamespaced[*corev1.ConfigMap](id, TranslatorOptions{}), o)
	if !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("got %v", err)
	}
}

// Only the API server's word that there is no object is absence.
func TestPresenceOf(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "a")
	for _, c := range []struct {
		obj  *corev1.ConfigMap
		err  error
		want presence
	}{
		{&corev1.ConfigMap{}, nil, present},
		{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, nil, terminating},
		{&corev1.ConfigMap{}, missing, absent},
	} {
		if got, err := presenceOf(c.obj, c.err); got != c.want || err != nil {
			t.Errorf("got %d, %v, want %d", got, err, c.want)
		}
	}
	if _, err := presenceOf(&corev1.ConfigMap{}, errors.New("the network is down")); err == nil {
		t.Error("an error counts as absence")
	}
}
