// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/memory"
	"github.com/clusterfx/clusterfx/registry"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
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
	p := &Pair{options: PairOptions{Name: "p", Identity: id, Downstream: OfHub(registry.Remote{}, HubSelection{})}}
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

// A pair records ten events of one reason in ten minutes, and says so with the last one.
func TestEvents_Take(t *testing.T) {
	t.Parallel()
	var e events
	now := time.Now()
	for i := range 12 {
		if left := e.take("Rejected", now.Add(time.Duration(i)*time.Minute/2)); left != 9-i {
			t.Errorf("event %d: %d may follow, want %d", i, left, 9-i)
		}
	}
	if a, b := e.take("Contended", now), e.take("Rejected", now.Add(eventWindow)); a != 9 || b != 9 {
		t.Errorf("another reason, and another time: %d, %d", a, b)
	}
}

// Of a remote whose copies change their status all the time, the status of each original is written once a second at most, that of all
// five times a second after a moment, and each original has its turn. The first status of an original does not wait.
func TestSession_StatusWait(t *testing.T) {
	t.Parallel()
	const originals, seconds, hertz = 17, 60, 17
	r := &reconciler[*corev1.ConfigMap]{memory: memory.New(), pair: &Pair{options: PairOptions{StatusLimiter: NewStatusLimiter()}}}
	began, writes, last := time.Now(), make([]int, originals), make([]time.Time, originals)
	for step := range seconds * hertz {
		now := began.Add(time.Duration(step) * time.Second / hertz)
		for i := range originals {
			s := &Session[*corev1.ConfigMap]{of: r, key: types.NamespacedName{Name: strconv.Itoa(i)}}
			if s.statusWait(now) > 0 {
				continue
			}
			if step > 0 && now.Sub(last[i]) < time.Second {
				t.Fatalf("original %d is written %s after the last time", i, now.Sub(last[i]))
			}
			writes[i], last[i] = writes[i]+1, now
			r.memory.Wrote(s.key, func(w *memory.Write) { w.Status = memory.StatusWrite{At: now} })
		}
	}
	sum := 0
	for i, n := range writes {
		if sum += n; n < seconds*statusRate/originals/2 {
			t.Errorf("original %d was written %d times: %v", i, n, writes)
		}
	}
	if most := originals + seconds*statusRate + statusBurst; sum > most {
		t.Errorf("%d writes in %d seconds, want %d at most", sum, seconds, most)
	}
}
