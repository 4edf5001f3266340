// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

const writesTotal = "clusterfx_sync_writes_total"

// An author who does not apply creates, updates or patches, with the same marks and preconditions.
// Promise: Session: clients of both sides, writes, events and the request of one reconcile.
func TestSession_CreateUpdatePatch(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"Update", "Patch"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			s := newScripted()
			s.down = func(ctx context.Context, e syncer.Down[*corev1.ConfigMap]) (reconcile.Result, error) {
				if err := e.Update(ctx, e.Translate(e.Upstream)); !apierrors.IsConflict(err) {
					t.Errorf("update of an object that does not exist: %v", err)
				}
				return reconcile.Result{}, e.Create(ctx, e.Translate(e.Upstream))
			}
			s.both = func(ctx context.Context, e syncer.Both[*corev1.ConfigMap]) (reconcile.Result, error) {
				changed, annotations, labels := e.TranslateUpdate(e.Upstream, e.Downstream)
				if !changed && e.Downstream.Data["k"] == e.Upstream.Data["k"] {
					return reconcile.Result{}, nil
				}
				down := e.Downstream
				down.Annotations, down.Labels, down.Data["k"] = annotations, labels, e.Upstream.Data["k"]
				if way == "Patch" {
					return reconcile.Result{}, e.Patch(ctx, down)
				}
				return reconcile.Result{}, e.Update(ctx, down)
			}
			b.register(t, s, syncer.Options[*corev1.ConfigMap]{})
			b.run(t)
			up := b.original("a", map[string]string{"k": "1"})
			must(t, b.up.Create(t.Context(), up))
			found := b.wait(t, "a", map[string]string{"k": "1"})
			must(t, b.down.Patch(t.Context(), found, client.RawPatch(types.MergePatchType, []byte(`{"data":{"theirs":"1"},"metadata":{"labels":{"host":"1"}}}`))))
			must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"2"},"metadata":{"labels":{"l":"1"}}}`))))
			after := b.wait(t, "a", map[string]string{"k": "2", "theirs": "1"})
			if after.UID != found.UID || after.Labels["host"] != "1" || after.Labels["l"] != "1" {
				t.Errorf("the copy has the labels %v", after.Labels)
			}
			must(t, b.up.Delete(t.Context(), up))
			fleettest.Gone(t, b.down, found)
		})
	}
}

// A create that meets a foreign object which the cache does not have yet is a conflict of names.
func TestSession_CreateMeetsAForeignObject(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	s := newScripted()
	foreign := b.copyOf("a")
	var once atomic.Bool
	s.down = func(ctx context.Context, e syncer.Down[*corev1.ConfigMap]) (reconcile.Result, error) {
		if e.Upstream.Name == "a" && once.CompareAndSwap(false, true) {
			if err := b.down.Create(ctx, foreign); err != nil {
				return reconcile.Result{}, err
			}
		}
		return reconcile.Result{}, e.Create(ctx, e.Translate(e.Upstream))
	}
	b.register(t, s, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	must(t, b.up.Create(t.Context(), b.original("a", nil)))
	b.expectEvent(t, "a", syncer.ReasonNameConflict, foreign.Name)
	b.barrier(t, "after")
	b.expectUnchanged(t, foreign)
}

// DeleteHost deletes exactly the object that was read.
// Promise: DeleteHost: deletes a copy with preconditions; an object that has gone is no error.
func TestDeleteHost_HasPreconditions(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.run(t)
	known := b.copyOf("a")
	must(t, b.down.Create(t.Context(), known))
	changed := known.DeepCopy()
	b.label(t, b.down, changed, "edited", "1")
	if err := syncer.DeleteHost(t.Context(), b.pair, known.DeepCopy()); !apierrors.IsConflict(err) {
		t.Errorf("an object that has changed: %v", err)
	}
	must(t, b.down.Delete(t.Context(), b.copyOf("a")))
	replacement := b.copyOf("a")
	must(t, b.down.Create(t.Context(), replacement))
	other := known.DeepCopy()
	other.ResourceVersion = ""
	if err := syncer.DeleteHost(t.Context(), b.pair, other); !apierrors.IsConflict(err) {
		t.Errorf("an object that has been replaced: %v", err)
	}
	must(t, syncer.DeleteHost(t.Context(), b.pair, replacement.DeepCopy()))
	fleettest.Gone(t, b.down, replacement)
	must(t, syncer.DeleteHost(t.Context(), b.pair, changed))
}

// Another client that sets a field repeatedly is named, and the pair writes less and less often.
func TestContended_WritesAreBounded(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	b := newBench(t, func(o *syncer.PairOptions) { o.Metrics = metrics })
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	must(t, b.up.Create(t.Context(), b.original("a", map[string]string{"k": "ours"})))
	b.wait(t, "a", map[string]string{"k": "ours"})
	fields := b.pair.Identity().Keys().Fields
	must(t, b.up.Create(t.Context(), b.original("marks", nil)))
	b.wait(t, "marks", nil)

	// The other client reacts to each change at once.
	fighting := fleettest.Client(t, fleettest.Cluster(t, "down"))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	changes, err := fighting.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(b.downNS))
	must(t, err)
	defer changes.Stop()
	begin := sum(t, metrics, writesTotal)
	for ctx.Err() == nil {
		select {
		case e := <-changes.ResultChan():
			b.fight(ctx, e, fields)
		case <-ctx.Done():
		}
	}
	b.expectEvent(t, "a", syncer.ReasonContended, "data.k")
	b.expectEvent(t, "marks", syncer.ReasonContended, "applied-fields")
	// Six writes at once, and then after 1, 2, 4 and 8 seconds, for two objects.
	if writes := sum(t, metrics, writesTotal) - begin; writes < 10 || writes > 30 {
		t.Errorf("%v writes in 15 seconds", writes)
	}
}

// fight is the reaction of another client to a change.
func (b *bench) fight(ctx context.Context, e watch.Event, fields string) {
	obj, ok := e.Object.(*corev1.ConfigMap)
	if !ok {
		return
	}
	patch := ""
	switch {
	case obj.Data["k"] == "ours":
		patch = `{"data":{"k":"theirs"}}`
	case obj.Data == nil && obj.Annotations[fields] != "" && obj.Annotations[fields] != "theirs":
		patch = `{"metadata":{"annotations":{"` + fields + `":"theirs"}}}`
	default:
		return
	}
	_ = b.down.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch))) // It is tried again with the next change.
}

// A copy that the API server does not accept is reported with the field, and tried again after pauses that double.
// Promise: immutable fields, a webhook that rejects or changes copies: few writes, and an event that names the field.
func TestRejected_NamesTheFieldWithoutAHotLoop(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	b := newBench(t, func(o *syncer.PairOptions) { o.Metrics = metrics })
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	up := b.original("a", map[string]string{"k": "1"})
	must(t, b.up.Create(t.Context(), up))
	found := b.wait(t, "a", map[string]string{"k": "1"})
	must(t, b.down.Patch(t.Context(), found, client.RawPatch(types.MergePatchType, []byte(`{"immutable":true}`))))
	const rejections = "error" // Conflicts are possible as well: the cache may be behind for a moment.
	before := sum(t, metrics, writesTotal, rejections)
	must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"2"}}`))))
	e := b.expectEvent(t, "a", syncer.ReasonRejected, "data")
	if strings.Contains(e.Note, "immutable") {
		t.Errorf("the event repeats the text of the API server: %s", e.Note)
	}
	// After three seconds there have been two or three attempts, and not hundreds.
	timeout, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	<-timeout.Done()
	if n := sum(t, metrics, writesTotal, rejections) - before; n < 1 || n > 5 {
		t.Errorf("%v writes of a copy that is rejected, of %v writes in all", n, sum(t, metrics, writesTotal))
	}
	testkit.Equal(t, len(b.events(t, "a", syncer.ReasonRejected)), 1, "events")
	// It is not stuck: when the obstacle has gone, the copy follows.
	must(t, b.down.Delete(t.Context(), b.copyOf("a")))
	b.wait(t, "a", map[string]string{"k": "2"})
}

// Objects of 1 MiB, which is the limit of a ConfigMap, are copied.
// Promise: objects of 1 MiB; many objects in one namespace, after a restart, too: copied, without a write that changes nothing.
func TestApply_ObjectsOf1MiB(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	data := map[string]string{"k": strings.Repeat("x", 1<<20-1)}
	up := b.original("a", data)
	must(t, b.up.Create(t.Context(), up))
	b.wait(t, "a", data)
	must(t, b.up.Delete(t.Context(), up))
	fleettest.Gone(t, b.down, b.copyOf("a"))
}

// Observe writes nothing on either side but events.
func TestObserve_WritesNothing(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	for _, name := range []string{"changed", "deleted"} {
		must(t, b.up.Create(t.Context(), b.original(name, map[string]string{"k": "1"})))
		b.wait(t, name, map[string]string{"k": "1"})
	}
	b.stop()
	must(t, b.up.Delete(t.Context(), b.original("deleted", nil)))
	changed := b.original("changed", nil)
	must(t, b.up.Patch(t.Context(), changed, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"2"}}`))))
	must(t, b.up.Create(t.Context(), b.original("new", map[string]string{"k": "1"})))
	var before corev1.ConfigMapList
	must(t, b.down.List(t.Context(), &before, client.InNamespace(b.downNS)))

	b.begin(t, func(o *syncer.PairOptions) { o.Metrics = metrics })
	b.copies(t, syncer.Options[*corev1.ConfigMap]{Observe: true})
	b.run(t)
	b.expectEvent(t, "changed", syncer.ReasonWouldWrite, "would update")
	b.expectEvent(t, "deleted", syncer.ReasonWouldWrite, "would delete")
	b.expectEvent(t, "new", syncer.ReasonWouldWrite, "would create")
	b.stop()
	var after corev1.ConfigMapList
	must(t, b.down.List(t.Context(), &after, client.InNamespace(b.downNS)))
	testkit.Equal(t, len(after.Items), len(before.Items), "objects")
	for i := range before.Items {
		b.expectUnchanged(t, &before.Items[i])
	}
	testkit.Equal(t, sum(t, metrics, writesTotal), 0, "writes")
	up := b.original("new", nil)
	must(t, b.up.Get(t.Context(), client.ObjectKeyFromObject(up), up))
	testkit.Equal(t, len(up.Finalizers), 0, "finalizers of the original", up.Finalizers)
}

// Fields that are excluded belong to the downstream cluster.
// Promise: fields of both sides survive.
func TestExclude_FieldsOfTheDownstreamCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{Exclude: []string{"/data/theirs", "/data/with~1slash"}})
	b.run(t)
	up := b.original("a", map[string]string{"k": "1", "theirs": "up"})
	must(t, b.up.Create(t.Context(), up))
	found := b.wait(t, "a", map[string]string{"k": "1"})
	must(t, b.down.Patch(t.Context(), found, client.RawPatch(types.MergePatchType, []byte(`{"data":{"theirs":"down"}}`))))
	must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"2","theirs":"up2"}}`))))
	b.wait(t, "a", map[string]string{"k": "2", "theirs": "down"})
}

// A quiet pair writes nothing, also after a restart.
// Promise: writes: success makes no event, a rejected write makes one that names the field, and a copy as desired costs no request.
func TestApply_NothingToDoWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	up := b.original("a", map[string]string{"k": "1"})
	up.Labels, up.Annotations = map[string]string{"l": "1"}, map[string]string{"n": "1"}
	must(t, b.up.Create(t.Context(), up))
	found := b.wait(t, "a", map[string]string{"k": "1"})
	b.stop()
	metrics := prometheus.NewRegistry()
	b.begin(t, func(o *syncer.PairOptions) { o.Metrics = metrics })
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	b.barrier(t, "restarted")
	b.expectUnchanged(t, found)
	testkit.Equal(t, len(eventsOf(t, b)), 0, "events")
	b.label(t, b.down, found, "theirs", "1")
	b.barrier(t, "labelled")
	b.expectUnchanged(t, found)
}

func eventsOf(t *testing.T, b *bench) []eventsv1.Event {
	t.Helper()
	var list eventsv1.EventList
	must(t, b.up.List(t.Context(), &list, client.InNamespace(b.upNS)))
	return list.Items
}

// A label with the name of a controller takes an original out of the pair.
// Promise: controlled-by: an original with that label is not copied.
func TestSelect_ControlledBy(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	up := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.upNS, Name: "a"}}
	must(t, b.up.Create(t.Context(), up))
	b.wait(t, "a", nil)
	b.label(t, b.up, up, b.pair.Identity().Keys().ControlledBy, "somebody")
	fleettest.Gone(t, b.down, b.copyOf("a"))
	eventually(t, func() error {
		if err := b.up.Get(t.Context(), client.ObjectKeyFromObject(up), up); err != nil {
			return err
		}
		if len(up.Finalizers) != 0 {
			return errors.New(fmt.Sprint("the finalizers are still there: ", up.Finalizers))
		}
		return nil
	})
}

// A copy that an admission webhook of the downstream cluster changes is written once for each state of its original, and an event
// names the field.
func TestContended_ByTheAPIServer(t *testing.T) {
	t.Parallel()
	b, metrics := newBench(t, nil), prometheus.NewRegistry()
	b.between = func(r *http.Request) {
		if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/"+b.downNS+"/configmaps/a-x-") {
			return
		}
		body, err := io.ReadAll(r.Body)
		testkit.NoError(t, err)
		body = bytes.ReplaceAll(body, []byte(`"k":"1"`), []byte(`"k":"changed"`))
		r.Body, r.GetBody, r.ContentLength = io.NopCloser(bytes.NewReader(body)), nil, int64(len(body))
	}
	b.begin(t, func(o *syncer.PairOptions) { o.Metrics = metrics })
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	up := b.original("a", map[string]string{"k": "1"})
	must(t, b.up.Create(t.Context(), up))
	b.expectEvent(t, "a", syncer.ReasonContended, "data.k")
	for i := range 3 {
		value := fmt.Sprint("edit-", i)
		must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"data":{"l":"`+value+`"}}`))))
		b.wait(t, "a", map[string]string{"k": "changed", "l": value})
	}
	// Somebody else who writes nothing new is no reason to write either.
	down := b.copyOf("a")
	eventually(t, func() error { // The pair knows what the API server has made of the last state.
		if err := b.downHost.GetClient().Get(t.Context(), client.ObjectKeyFromObject(down), down); err != nil || down.Data["l"] == "edit-2" {
			return err
		}
		return fmt.Errorf("the cache has %v", down.Data)
	})
	b.barrier(t, "before")
	same := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{"k":"changed"}}`, down.Name, down.Namespace)
	must(t, b.down.Patch(t.Context(), down, client.RawPatch(types.ApplyPatchType, []byte(same)), client.FieldOwner("somebody"), client.ForceOwnership))
	b.barrier(t, "after") // Everything that is to be written for the original has been written.
	const want = 4 + 4
	eventually(t, func() error { // The last write is counted when the pair has its response.
		if written := sum(t, metrics, writesTotal, "down", "ok"); written < want {
			return fmt.Errorf("%v writes", written)
		}
		return nil
	})
	testkit.Equal(t, sum(t, metrics, writesTotal, "down", "ok"), want, "writes for 4 states of the original, and of the copies of the barriers")
}
