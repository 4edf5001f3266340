// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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
