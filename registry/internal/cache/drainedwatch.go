// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// drainedWatch reads the remaining events when it is stopped: the goroutine of watch.Filter, for metadata, would wait
// forever for a receiver.
type drainedWatch struct {
	watch.Interface
	once  sync.Once
	ended func() // called when the watch is stopped
	list  *streamedList
}

func (d *drainedWatch) Stop() {
	d.Interface.Stop()
	d.once.Do(func() {
		d.ended()
		if d.list != nil {
			close(d.list.stopped)
		}
		go func() {
			for range d.Interface.ResultChan() {
			}
		}()
	})
}

func (d *drainedWatch) ResultChan() <-chan watch.Event {
	if d.list != nil {
		return d.list.events
	}
	return d.Interface.ResultChan()
}

// streamedList is the list at the beginning of a watch. It ends without its last event if the API server never sends
// that, as some aggregated ones and proxies (kubernetes#140890); client-go waits for it without end.
type streamedList struct {
	events  chan watch.Event
	stopped chan struct{} // closed when the watch is stopped
}

const (
	// listSilence is how long the next object, the end, or the end of an empty list may take.
	listSilence = 10 * time.Second
	// listTime bounds a streamed list, unless Limits.Sync is less than twice that.
	listTime = 5 * time.Minute
)

// newStreamedList passes on the events of a watch, and calls without if its list has not ended after most, or before.
// Its goroutine ends with the watch.
func newStreamedList(from <-chan watch.Event, most time.Duration, without func()) *streamedList {
	l := &streamedList{events: make(chan watch.Event), stopped: make(chan struct{})}
	go l.pass(from, most, without)
	return l
}

func (l *streamedList) pass(from <-chan watch.Event, most time.Duration, without func()) {
	defer close(l.events)
	silence, whole := time.NewTimer(listSilence), time.NewTimer(most)
	defer silence.Stop()
	defer whole.Stop()
	for isList := true; ; {
		e, ok, timely := watch.Event{}, true, true
		select {
		case <-l.stopped:
			return
		case e, ok = <-from:
		case <-silence.C:
			select { // This process may have been slow.
			case e, ok = <-from:
				timely = !ok || e.Type == watch.Added || endsList(e)
			default:
				timely = false
			}
		case <-whole.C:
			timely = false
		}
		switch {
		case !timely:
			without()
			return
		case !ok:
			return
		case endsList(e):
			isList = false
			silence.Stop()
			whole.Stop()
		case isList && e.Type == watch.Added:
			silence.Reset(listSilence)
		}
		select {
		case l.events <- e:
		case <-l.stopped:
			return
		}
	}
}

func endsList(e watch.Event) bool {
	if e.Type != watch.Bookmark {
		return false
	}
	one, err := meta.Accessor(e.Object)
	return err == nil && one.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// Unstreamed are the API groups of which an API server cannot stream a list. It is safe for many goroutines.
type Unstreamed struct {
	mu     sync.Mutex // protects the fields
	of     string
	groups map[string]struct{}
}

// At returns u for an endpoint and a version: another server may stream what the one before could not.
func (u *Unstreamed) At(endpoint, version string) *Unstreamed {
	u.mu.Lock()
	defer u.mu.Unlock()
	if of := endpoint + " " + version; u.of != of {
		u.of, u.groups = of, nil
	}
	return u
}

func (u *Unstreamed) add(group string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.groups == nil {
		u.groups = map[string]struct{}{}
	}
	u.groups[group] = struct{}{}
}

func (u *Unstreamed) has(group string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.groups[group]
	return ok
}
