// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// exceed deletes one object more than allowed, and returns the error of the last delete.
func exceed(t *testing.T, app registry.Remote, namespace string) error {
	t.Helper()
	for i := range 20 {
		if err := app.Client.Delete(t.Context(), configMap(namespace, i)); err != nil {
			t.Fatalf("delete %d: %v", i, err)
		}
	}
	return app.Client.Delete(t.Context(), configMap(namespace, 20))
}

// A delete beyond the limit is refused, also if the hold cannot be stored. It is stored when that is possible.
func TestDeletes_HoldThatCannotBeStored(t *testing.T) {
	t.Parallel()
	hub := clientFor(t, fleettest.Cluster(t, "hub"))
	key := client.ObjectKey{Namespace: unique("held-late"), Name: "holds"}
	r, app, outside := appOf(t, func(o *registry.Options) { o.Holds = key })
	namespace := objectsOf(t, outside, 22)
	err := exceed(t, app, namespace)
	var held *deletes.HeldError
	if !errors.As(err, &held) || held.Reason != deletes.LimitExceeded || !strings.Contains(err.Error(), "cannot be stored") {
		t.Errorf("a delete beyond the limit: %v", err)
	}
	must(t, hub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}))
	id := r.HeldDeletes()[0].ID
	isStored := func() error {
		var all corev1.ConfigMap
		if err := hub.Get(t.Context(), key, &all); err != nil {
			return err
		}
		if !strings.Contains(all.Data["one"], id) {
			return fmt.Errorf("the ConfigMap has %v", all.Data)
		}
		return nil
	}
	eventually(t, isStored)
	for what, patch := range map[string]string{
		"damaged": `{"data":{"one":"nonsense"}}`, "removed": `{"data":{"one":null}}`,
	} {
		all := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		must(t, hub.Patch(t.Context(), all, client.RawPatch(types.MergePatchType, []byte(patch))))
		eventually(t, isStored)
		if err := app.Client.Delete(t.Context(), configMap(namespace, 21)); !errors.Is(err, deletes.ErrHeld) {
			t.Errorf("a delete after the hold was %s: %v", what, err)
		}
	}
}

// While the stored holds cannot be read, deletes are refused with an error that says what to do, which the status and a metric show,
// and which is logged once. They continue without a restart.
func TestDeletes_DamagedHolds(t *testing.T) {
	t.Parallel()
	hub := clientFor(t, fleettest.Cluster(t, "hub"))
	key := client.ObjectKey{Namespace: "default", Name: unique("damaged-holds")}
	damaged := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string]string{"by-hand": "{"},
	}
	must(t, hub.Create(t.Context(), damaged))
	var log logLines
	metrics := prometheus.NewRegistry()
	r, app, outside := appOf(t, func(o *registry.Options) { o.Holds, o.Log, o.Metrics = key, log.log(), metrics })
	if status, _ := r.Status("one"); status.DeletesHeld.Status != metav1.ConditionUnknown {
		t.Errorf("before the holds are read the status is %+v, want Unknown", status.DeletesHeld)
	}
	namespace := objectsOf(t, outside, 21)
	err := app.Client.Delete(t.Context(), configMap(namespace, 20))
	var held *deletes.HeldError
	if !errors.As(err, &held) || held.Reason != deletes.StoreUnavailable || !strings.Contains(err.Error(), `remove the key`) ||
		!strings.Contains(err.Error(), `"by-hand"`) || !strings.Contains(err.Error(), key.String()) {
		t.Errorf("a delete with damaged holds: %v", err)
	}
	status, _ := r.Status("one")
	if held := status.DeletesHeld; held.Status != metav1.ConditionTrue || held.Reason != string(deletes.StoreUnavailable) {
		t.Errorf("the status is %+v", held)
	}
	if holds := r.HeldDeletes(); len(holds) > 0 {
		t.Errorf("the holds are %+v", holds)
	}
	testkit.ErrorIs(t, app.Client.Delete(t.Context(), configMap(namespace, 19)), deletes.ErrHeld, "another delete with damaged holds")
	labels := map[string]string{"cluster": "one", "module": "pruner", "reason": string(deletes.StoreUnavailable)}
	testkit.Equal(t, metric(t, metrics, "clusterfx_deletes_held_total", labels), 2, "clusterfx_deletes_held_total")
	if lines := log.with("Failed to keep the holds of deletes"); len(lines) > 1 {
		t.Errorf("the lines about the store are %q, want 1", lines)
	}
	if err := app.Client.Create(t.Context(), configMap(namespace, 100)); err != nil {
		t.Errorf("a create with damaged holds: %v", err)
	}
	must(t, hub.Delete(t.Context(), damaged))
	eventually(t, func() error {
		err := app.Client.Delete(t.Context(), configMap(namespace, 20))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// A hold in the ConfigMap is in force in the next registry, with its id. An allowance for another id has no effect.
// Promise: a hold outlives the hub.
func TestDeletes_NextRegistry(t *testing.T) {
	t.Parallel()
	key := client.ObjectKey{Namespace: "default", Name: unique("next-holds")}
	r, app, outside := appOf(t, func(o *registry.Options) { o.Holds = key })
	namespace := objectsOf(t, outside, 30)
	if err := exceed(t, app, namespace); !errors.Is(err, deletes.ErrHeld) {
		t.Fatal(err)
	}
	id := r.HeldDeletes()[0].ID
	must(t, r.Shutdown(t.Context()))
	next, app, _ := appOf(t, func(o *registry.Options) { o.Holds = key })
	testkit.ErrorIs(t, app.Client.Delete(t.Context(), configMap(namespace, 21)), deletes.ErrHeld, "a delete in the next registry")
	if holds := next.HeldDeletes(); len(holds) != 1 || holds[0].ID != id {
		t.Errorf("the holds are %+v, want %s", holds, id)
	}
	if err := next.AllowDeletes(t.Context(), "one", "pruner-configmaps-0000=9"); err != nil {
		t.Error(err)
	}
	testkit.ErrorIs(t, app.Client.Delete(t.Context(), configMap(namespace, 21)), deletes.ErrHeld, "a delete after an allowance for another hold")
	for _, value := range []string{id + "=0", id + "=-1", id + "=many", id, "=3"} {
		if next.AllowDeletes(t.Context(), "one", value) == nil && value != "=3" {
			t.Errorf("the value %q is accepted", value)
		}
	}
	if err := next.AllowDeletes(t.Context(), "another", id+"=9"); err != nil {
		t.Error(err)
	}
	testkit.ErrorIs(t, app.Client.Delete(t.Context(), configMap(namespace, 21)), deletes.ErrHeld, "a delete after an allowance of another remote")
	if err := next.AllowDeletes(t.Context(), "one", "old=3, "+id+"=2"); err != nil {
		t.Error(err)
	}
	if n := atOnce(t, 9, func(i int) error { return app.Client.Delete(t.Context(), configMap(namespace, 21+i)) }); n != 2 {
		t.Errorf("%d deletes, want the 2 that are allowed", n)
	}
	hub := clientFor(t, fleettest.Cluster(t, "hub"))
	eventually(t, func() error { // The upkeep brings what hub deletes ls shows up to date.
		var all corev1.ConfigMap
		if err := hub.Get(t.Context(), key, &all); err != nil {
			return err
		}
		entries, err := holds.Read(&all)
		stored := holds.ByID(entries)[id]
		if err == nil && (stored.Granted != 2 || stored.Spent != 2 || stored.More != 8) {
			err = fmt.Errorf("the stored hold is %+v", stored)
		}
		return err
	})
}
