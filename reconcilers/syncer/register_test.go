// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/internal/testkit"
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
	testkit.ErrorIs(t, err, ErrInvalidConfig)
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
	testkit.Fails(t, testkit.Err(presenceOf(&corev1.ConfigMap{}, errors.New("the network is down"))), "an error counts as absence")
}

// A pair records five events of one reason at once and one in two minutes, says so with the last one, and gives back what exists
// already.
func TestEvents_Take(t *testing.T) {
	t.Parallel()
	var e events
	now := time.Now()
	expect := func(reason string, after time.Duration, may, last bool) (giveBack func()) {
		t.Helper()
		giveBack, isLast := e.take(reason, now.Add(after))
		if (giveBack != nil) != may || isLast != last {
			t.Errorf("%s after %s: %t, and the last one %t; want %t, %t", reason, after, giveBack != nil, isLast, may, last)
		}
		return giveBack
	}
	for i := range maxEvents {
		expect("Rejected", time.Duration(i)*time.Second, true, i == maxEvents-1)
	}
	const full = maxEvents * time.Second
	expect("Rejected", full, false, false)
	expect("Contended", full, true, false)
	expect("Rejected", full+eventEvery, true, true)()
	expect("Rejected", full+eventEvery, true, true)
	expect("Rejected", full+eventEvery, false, false)
}

// Of a remote whose copies change their status all the time, the status of each original is written once a second at most, that of all
// five times a second after a moment, and each original has its turn. The first status of an original does not wait, and the last one
// of a few originals waits for two seconds at most.
func TestSession_StatusWait(t *testing.T) {
	t.Parallel()
	expectStatusWait(t, 17, time.Minute)
	expectStatusWait(t, statusRate, 2*time.Second)
}

func expectStatusWait(t *testing.T, originals int, longest time.Duration) {
	t.Helper()
	const seconds, hertz = 60, 17
	r := &reconciler[*corev1.ConfigMap]{memory: memory.New(), pair: &Pair{options: PairOptions{StatusLimiter: NewStatusLimiter()}}}
	began, writes, last := time.Now(), make([]int, originals), make([]time.Time, originals)
	for step := range seconds * hertz {
		now := began.Add(time.Duration(step) * time.Second / hertz)
		for i := range originals {
			s := &Session[*corev1.ConfigMap]{of: r, key: types.NamespacedName{Name: strconv.Itoa(i)}}
			if wait := s.statusWait(now); wait > longest {
				t.Fatalf("of %d, original %d waits for %s", originals, i, wait)
			} else if wait > 0 {
				continue
			}
			if step > 0 && now.Sub(last[i]) < time.Second {
				t.Fatalf("original %d is written %s after the last time", i, now.Sub(last[i]))
			}
			writes[i], last[i] = writes[i]+1, now
			r.memory.Change(s.key, func(o *memory.Object) { o.Wrote.Status = memory.StatusWrite{At: now} })
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

// A status may have anything: elements that no name identifies, numbers that a remote has made up, and those of before.
func TestGenerations(t *testing.T) {
	t.Parallel()
	const latest = 5
	for name, c := range map[string]struct {
		g                 generations
		status, had, want string
	}{
		"observed":            {generations{9, 4, latest}, `{"observedGeneration":9}`, `{"observedGeneration":3}`, `{"observedGeneration":4}`},
		"not observed":        {generations{9, 4, latest}, `{"observedGeneration":8}`, `{"observedGeneration":3}`, `{"observedGeneration":3}`},
		"not observed, first": {generations{9, 4, latest}, `{"observedGeneration":8}`, `{}`, `{}`},
		"never falls":         {generations{9, 3, latest}, `{"observedGeneration":9}`, `{"observedGeneration":4}`, `{"observedGeneration":4}`},
		"never goes":          {generations{9, 4, latest}, `{}`, `{"observedGeneration":3}`, `{"observedGeneration":3}`},
		"no mark":             {generations{9, 0, latest}, `{"observedGeneration":9}`, `{"observedGeneration":3}`, `{"observedGeneration":3}`},
		"too high before":     {generations{9, 4, latest}, `{"observedGeneration":9}`, `{"observedGeneration":50}`, `{"observedGeneration":4}`},
		"conditions": {
			generations{9, 4, latest},
			`{"conditions":[{"type":"B","observedGeneration":8},{"type":"A","observedGeneration":9}]}`,
			`{"conditions":[{"type":"A","observedGeneration":2},{"type":"B","observedGeneration":3}]}`,
			`{"conditions":[{"type":"B","observedGeneration":3},{"type":"A","observedGeneration":4}]}`,
		},
		"names that are no texts": {
			generations{9, 4, latest},
			`{"items":[{"name":{"first":"x"},"observedGeneration":9}]}`, `{"items":[{"name":{"first":"x"},"observedGeneration":1}]}`,
			`{"items":[{"name":{"first":"x"},"observedGeneration":4}]}`,
		},
	} {
		var status, had, want map[string]any
		for text, into := range map[string]*map[string]any{c.status: &status, c.had: &had} {
			testkit.Must(t, utiljson.Unmarshal([]byte(text), into))
		}
		if c.had == c.status {
			had = runtime.DeepCopyJSON(status)
		}
		testkit.Must(t, utiljson.Unmarshal([]byte(c.want), &want))
		if c.g.inMap(status, had); !reflect.DeepEqual(status, want) {
			t.Errorf("%s: got %v, want %v", name, status, want)
		}
	}
}

// A direction that waits does not wait for the backoff of the one that fails, and the errors of both are errors.
func TestSettle(t *testing.T) {
	t.Parallel()
	bad, later := errors.New("bad"), &LaterError{After: 2 * time.Second, Why: "x"}
	for name, c := range map[string]struct {
		up, down error
		fails    bool
		atMost   time.Duration
	}{
		"both fail":  {bad, bad, true, 0},
		"up waits":   {later, bad, false, 3 * time.Second},
		"down waits": {bad, later, false, 3 * time.Second},
		"both wait":  {later, &LaterError{After: time.Hour}, false, 3 * time.Second},
		"one alone":  {nil, bad, true, 0},
	} {
		result, err := settle(reconcile.Result{}, BothDirections(c.up, c.down))
		if (err != nil) != c.fails || !c.fails && (result.RequeueAfter == 0 || result.RequeueAfter > c.atMost) {
			t.Errorf("%s: got %v, %v", name, result, err)
		}
	}
}
