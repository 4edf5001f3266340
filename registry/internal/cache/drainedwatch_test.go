// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// happening is an event some time after the one before.
type happening struct {
	after time.Duration
	kind  watch.EventType
	end   bool // the bookmark has the annotation of the end
}

func (h happening) event() watch.Event {
	obj := &corev1.ConfigMap{}
	if h.end {
		obj.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return watch.Event{Type: h.kind, Object: obj}
}

// A streamed list that comes in time reaches the reader whole, and its watch after it. One that does not end is given up, whatever
// comes beside its objects; the API group is listed from then on.
func TestStreamedList(t *testing.T) {
	t.Parallel()
	every := func(n int, one happening) (all []happening) {
		for range n {
			all = append(all, one)
		}
		return all
	}
	object, changed := happening{2 * time.Second, watch.Added, false}, happening{time.Second, watch.Modified, false}
	end := happening{time.Second, watch.Bookmark, true}
	for name, c := range map[string]struct {
		list  []happening
		after time.Duration // until it is given up; 0 for a list that ends
	}{
		"ends":                        {append(every(3, object), end), 0},
		"slow, and ends":              {append(every(140, object), end), 0}, // as a hundred thousand objects at 2 MB/s
		"without objects, and ends":   {[]happening{end}, 0},
		"never begins":                {nil, 10 * time.Second},
		"never ends":                  {every(3, object), 16 * time.Second},
		"of a busy kind":              {append(every(3, object), every(20, changed)...), 16 * time.Second},
		"with plain bookmarks":        {append(every(3, object), every(20, happening{time.Second, watch.Bookmark, false})...), 16 * time.Second},
		"with deletes":                {append(every(3, object), every(20, happening{time.Second, watch.Deleted, false})...), 16 * time.Second},
		"with objects without an end": {every(200, object), 5 * time.Minute}, // of the default of ten minutes
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				inner, u := play(append(c.list, happening{time.Minute, watch.Added, false})), &Unstreamed{}
				w := &drainedWatch{Interface: inner, ended: func() {}}
				w.list = newStreamedList(inner.ResultChan(), Limits{}.list(), func() { u.add("apps") })
				defer w.Stop()
				began, got := time.Now(), 0
				for e := range next(w) {
					if got++; endsList(e) {
						break
					}
				}
				took := time.Since(began)
				if c.after == 0 {
					if _, more := <-w.ResultChan(); !more || got != len(c.list) || u.has("apps") {
						t.Errorf("%d of %d events, then more: %t; given up: %t", got, len(c.list), more, u.has("apps"))
					}
					return
				}
				if took != c.after || !u.has("apps") || u.has("batch") {
					t.Errorf("given up %t after %s, want %s", u.has("apps"), took, c.after)
				}
			})
		})
	}
}

// The end of a list is known in each form of an object: typed, of metadata, and as a map.
func TestEndsList(t *testing.T) {
	t.Parallel()
	for _, obj := range []client.Object{&corev1.ConfigMap{}, &metav1.PartialObjectMetadata{}, &unstructured.Unstructured{Object: map[string]any{}}} {
		for _, value := range []string{"", "true"} {
			obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: value})
			if got := endsList(watch.Event{Type: watch.Bookmark, Object: obj}); got != (value != "") {
				t.Errorf("%T with %q ends the list: %t", obj, value, got)
			}
		}
	}
}

// played is a watch with events at their times.
type played struct {
	events  chan watch.Event
	stopped chan struct{}
}

func play(all []happening) *played {
	p := &played{events: make(chan watch.Event), stopped: make(chan struct{})}
	go func() {
		defer close(p.events)
		for _, one := range all {
			select {
			case <-time.After(one.after):
			case <-p.stopped:
				return
			}
			select {
			case p.events <- one.event():
			case <-p.stopped:
				return
			}
		}
		<-p.stopped
	}()
	return p
}

func (p *played) ResultChan() <-chan watch.Event { return p.events }

func (p *played) Stop() {
	select {
	case <-p.stopped:
	default:
		close(p.stopped)
	}
}

// next returns the events of a watch as a reflector asks for them.
func next(w watch.Interface) func(yield func(watch.Event) bool) {
	return func(yield func(watch.Event) bool) {
		for e, ok := <-w.ResultChan(); ok && yield(e); e, ok = <-w.ResultChan() {
		}
	}
}

// A reader that asks for the channel more often than there are events, as a reflector does every ten seconds, gets each of them.
func TestStreamedList_AskedOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := append(slices.Repeat([]happening{{9 * time.Second, watch.Added, false}}, 5), happening{time.Second, watch.Bookmark, true})
		inner := play(append(list, happening{time.Hour, watch.Modified, false}))
		w := &drainedWatch{Interface: inner, ended: func() {}}
		w.list = newStreamedList(inner.ResultChan(), listTime, func() { t.Error("the list was given up") })
		defer w.Stop()
		tick := time.NewTicker(3 * time.Second)
		defer tick.Stop()
		for got := 0; got < len(list)+1; {
			select {
			case <-tick.C:
			case e, ok := <-w.ResultChan():
				if got++; !ok || (got > len(list)) != (e.Type == watch.Modified) {
					t.Fatalf("event %d is %v, %t", got, e.Type, ok)
				}
			}
		}
	})
}

// However fast the events come, the reader gets each of them: the last one of the list, and the first one after it.
func TestStreamedList_Fast(t *testing.T) {
	t.Parallel()
	for range 5_000 {
		inner := play([]happening{{0, watch.Added, false}, {0, watch.Bookmark, true}, {0, watch.Modified, false}})
		w := &drainedWatch{Interface: inner, ended: func() {}}
		w.list = newStreamedList(inner.ResultChan(), listTime, func() {})
		for _, want := range []watch.EventType{watch.Added, watch.Bookmark, watch.Modified} {
			if e := <-w.ResultChan(); e.Type != want {
				t.Fatalf("got %s, want %s", e.Type, want)
			}
		}
		w.Stop()
	}
}

// A reader that stops in the middle of a list leaves no goroutine.
func TestStreamedList_Stopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // It waits for all goroutines.
		inner := play([]happening{{time.Second, watch.Added, false}})
		w := &drainedWatch{Interface: inner, ended: func() {}}
		w.list = newStreamedList(inner.ResultChan(), Limits{}.list(), func() {})
		<-time.After(2 * time.Second) // It waits for its reader.
		w.Stop()
		w.Stop()
	})
}

// What an API server cannot stream is remembered until it has another version, or another one is behind the name.
func TestUnstreamed(t *testing.T) {
	t.Parallel()
	var u Unstreamed
	u.At("a", "v1.36.0").add("apps")
	for _, c := range []struct {
		endpoint, version string
		want              bool
	}{{"a", "v1.36.0", true}, {"a", "v1.36.1", false}} {
		testkit.Equal(t, u.At(c.endpoint, c.version).has("apps"), c.want, fmt.Sprint(c.endpoint, c.version))
	}
	u.At("a", "v1.36.1").add("apps")
	if u.At("b", "v1.36.1").has("apps") {
		t.Error("another endpoint cannot stream either")
	}
}

// An API server that does not know streamed lists (422) is listed, is not asked again, and does not count as blocked.
func TestInformer_RefusesStreams(t *testing.T) {
	t.Parallel()
	s := newTestInformer(t, t.Context())
	streams := true
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	testkit.ErrorIs(t, s.refused(t.Context(), invalid, metav1.ListOptions{SendInitialEvents: &streams}), errNotStreamed)
	if since, why := blockedNow(s); !since.IsZero() {
		t.Errorf("blocked: %q", why.text)
	}
	testkit.ErrorIs(t, s.mayStream(""), errNotStreamed, "it is asked again")
}
