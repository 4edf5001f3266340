// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// drainedWatch reads the remaining events when it is stopped: the goroutine of watch.Filter, for metadata, would wait
// forever for a receiver.
type drainedWatch struct {
	watch.Interface
	stopped atomic.Bool
	ended   func() // called when the watch is stopped
}

func (d *drainedWatch) Stop() {
	d.Interface.Stop()
	if d.stopped.Swap(true) {
		return
	}
	d.ended()
	go func() {
		for range d.ResultChan() {
		}
	}()
}

const (
	// listLook is the time between two looks at a streamed list. It may have no further object at listPatience of them.
	listLook     = 5 * time.Second
	listPatience = 3
	// listTime bounds a streamed list, unless Limits.Sync is less than twice that.
	listTime = 5 * time.Minute
)

// awaitList stops a watch whose list does not end. Some aggregated API servers and proxies never send its last event
// (kubernetes#140890), and client-go waits for that without end.
func (i *Informer) awaitList(w *drainedWatch, began time.Time) {
	time.AfterFunc(listLook, func() {
		switch {
		case !i.streaming.Load() || w.stopped.Load():
		case i.looks.Add(1) < listPatience && time.Since(began) < i.budget.options.Limits.list():
			i.awaitList(w, began)
		default:
			i.notStreamed()
			w.Stop()
		}
	})
}

// Added implements transport.WatchObserver.
func (i *Informer) Added() (more bool) {
	i.looks.Store(0)
	return i.streaming.Load()
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
