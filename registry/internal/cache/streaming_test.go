// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
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
		"never begins":                {nil, 15 * time.Second},
		"never ends":                  {every(3, object), 20 * time.Second},
		"of a busy kind":              {append(every(3, object), every(20, changed)...), 20 * time.Second},
		"with plain bookmarks":        {append(every(3, object), every(20, happening{time.Second, watch.Bookmark, false})...), 20 * time.Second},
		"with deletes":                {append(every(3, object), every(20, happening{time.Second, watch.Deleted, false})...), 20 * time.Second},
		"with objects without an end": {every(200, object), 5 * time.Minute}, // of the default of ten minutes
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				i := newTestInformer(t, t.Context())
				inner := play(append(c.list, happening{time.Minute, watch.Added, false}), i)
				i.remote = toolscache.ToListerWatcherWithContext(&toolscache.ListWatch{
					WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return inner, nil },
				})
				streams := true
				w, err := i.watch(t.Context(), metav1.ListOptions{SendInitialEvents: &streams})
				must(t, err)
				defer w.Stop()
				began, got := time.Now(), 0
				for e := range w.ResultChan() {
					if got++; got == len(c.list) && e.Type == watch.Bookmark && c.after == 0 {
						must(t, sink{i}.Replace(nil, "1")) // as a reflector does
						break
					}
				}
				took, gaveUp := time.Since(began), i.budget.options.Unstreamed.has("")
				if c.after == 0 {
					if _, more := <-w.ResultChan(); !more || got != len(c.list) || gaveUp {
						t.Errorf("%d of %d events, then more: %t; given up: %t", got, len(c.list), more, gaveUp)
					}
					return
				}
				if took != c.after || !gaveUp {
					t.Errorf("given up %t after %s, want %s", gaveUp, took, c.after)
				}
			})
		})
	}
}

// played is a watch with events at their times.
type played struct {
	events  chan watch.Event
	stopped chan struct{}
}

// play tells the observer what the transport of a client sees.
func play(all []happening, observer transport.WatchObserver) *played {
	p := &played{events: make(chan watch.Event), stopped: make(chan struct{})}
	go func() {
		defer close(p.events)
		for _, one := range all {
			select {
			case <-time.After(one.after):
			case <-p.stopped:
				return
			}
			if one.kind == watch.Added {
				observer.Added()
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
