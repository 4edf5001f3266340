// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// What is in this file keeps informers from leaving goroutines behind when they end before they have
// synced, or in the middle of an event.

// HasSyncedChecker tells when the informer has synced. It does at the end of the app, too: the caches of
// several namespaces have goroutines that wait for nothing else.
func (s *Informer) HasSyncedChecker() toolscache.DoneChecker {
	return s.untilEnd(s.SharedIndexInformer.HasSyncedChecker())
}

// AddEventHandler adds a handler.
func (s *Informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (s *Informer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler.
func (s *Informer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	handle, err := s.SharedIndexInformer.AddEventHandlerWithOptions(h, o)
	if err != nil {
		return nil, err
	}
	return &registration{handle, s}, nil
}

// RemoveEventHandler removes a handler.
func (s *Informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	if r, ok := handle.(*registration); ok {
		handle = r.ResourceEventHandlerRegistration
	}
	return s.SharedIndexInformer.RemoveEventHandler(handle)
}

// registration is a handler that was added to a stock.
type registration struct {
	toolscache.ResourceEventHandlerRegistration
	stock *Informer
}

// HasSyncedChecker tells when the handler has been told of all initial objects, or the app has ended.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker {
	return r.stock.untilEnd(r.ResourceEventHandlerRegistration.HasSyncedChecker())
}

// untilEnd returns a checker that is done when c is or when the app has ended.
func (s *Informer) untilEnd(c toolscache.DoneChecker) toolscache.DoneChecker {
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-c.Done():
		case <-s.budget.options.Context.Done():
		}
	}()
	return &settled{DoneChecker: c, done: done}
}

type settled struct {
	toolscache.DoneChecker
	done chan struct{}
}

// Done implements toolscache.DoneChecker.
func (s *settled) Done() <-chan struct{} { return s.done }

// drained is a watch that reads what is left when it is stopped. The watches of metadata-only informers
// pass events on with watch.Filter, whose goroutine otherwise waits for ever for somebody to take the
// event that it holds.
type drained struct {
	watch.Interface
	once  sync.Once
	ended func() // called when it is stopped
}

// Stop ends the watch.
func (d *drained) Stop() {
	d.Interface.Stop()
	d.once.Do(func() {
		d.ended()
		go func() {
			for range d.ResultChan() {
			}
		}()
	})
}
