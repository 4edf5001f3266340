// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// This file makes sure that no goroutine stays behind when an informer ends before it has synced, or in the middle of
// an event.

// HasSyncedChecker returns a checker that is done when the informer has synced. It is also done at the end of the app:
// the caches of several namespaces have goroutines that wait for nothing else.
func (i *Informer) HasSyncedChecker() toolscache.DoneChecker {
	return i.untilEnd(i.SharedIndexInformer.HasSyncedChecker())
}

// AddEventHandler adds a handler.
func (i *Informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (i *Informer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler.
func (i *Informer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	handle, err := i.SharedIndexInformer.AddEventHandlerWithOptions(h, o)
	if err != nil {
		return nil, err
	}
	return &registration{handle, i}, nil
}

// RemoveEventHandler removes a handler.
func (i *Informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	if r, ok := handle.(*registration); ok {
		handle = r.ResourceEventHandlerRegistration
	}
	return i.SharedIndexInformer.RemoveEventHandler(handle)
}

// registration is a handler of an Informer.
type registration struct {
	toolscache.ResourceEventHandlerRegistration
	informer *Informer
}

// HasSyncedChecker returns a checker that is done when the handler has received all initial objects, or when the app
// ends.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker {
	return r.informer.untilEnd(r.ResourceEventHandlerRegistration.HasSyncedChecker())
}

// untilEnd returns a checker that is done when c is, or when the app ends.
func (i *Informer) untilEnd(c toolscache.DoneChecker) toolscache.DoneChecker {
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-c.Done():
		case <-i.budget.options.Context.Done():
		}
	}()
	return &doneChecker{DoneChecker: c, done: done}
}

type doneChecker struct {
	toolscache.DoneChecker
	done chan struct{}
}

// Done implements toolscache.DoneChecker.
func (s *doneChecker) Done() <-chan struct{} { return s.done }

// drainedWatch is a watch that reads the remaining events when it is stopped. The watches of metadata-only informers
// pass on events with watch.Filter, whose goroutine would otherwise wait forever for a receiver of its event.
type drainedWatch struct {
	watch.Interface
	once  sync.Once
	ended func() // called when the watch is stopped
}

// Stop ends the watch.
func (d *drainedWatch) Stop() {
	d.Interface.Stop()
	d.once.Do(func() {
		d.ended()
		go func() {
			for range d.ResultChan() {
			}
		}()
	})
}
