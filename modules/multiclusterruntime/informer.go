// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

type lateInformer struct {
	remote *remote
	open   func(context.Context) (cache.Informer, error)
	inner  cache.Informer // read it after opened
	opened chan struct{}
	synced chan struct{}
}

var _ cache.Informer = (*lateInformer)(nil)

func newLateInformer(r *remote, open func(context.Context) (cache.Informer, error)) *lateInformer {
	i := &lateInformer{remote: r, open: open, opened: make(chan struct{}), synced: make(chan struct{})}
	r.start(i.run)
	return i
}

// run opens the informer, which is tried again until it works, and returns when that has its objects.
func (i *lateInformer) run() {
	ctx := i.remote.ctx
	for pause := retries(); ctx.Err() == nil; {
		inner, err := i.openIndexed(ctx)
		if err == nil {
			i.inner = inner
			close(i.opened)
			pass(ctx, inner.HasSyncedChecker(), i.synced)
			return
		}
		i.remote.engagement.report(fmt.Errorf("watch: %w", err))
		select {
		case <-time.After(pause.Step()):
		case <-ctx.Done():
		}
	}
}

// openIndexed adds the indexes of the kind, which needed the remote to serve it.
func (i *lateInformer) openIndexed(ctx context.Context) (cache.Informer, error) {
	inner, err := i.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := i.remote.engagement.index(ctx, i.remote.cache); err != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	return inner, nil
}

// pass closes to when from is done, unless ctx has ended first.
func pass(ctx context.Context, from toolscache.DoneChecker, to chan<- struct{}) {
	select {
	case <-from.Done(): // at the end of the app, too
		if ctx.Err() == nil {
			close(to)
		}
	case <-ctx.Done():
	}
}

type registration struct {
	ctx    context.Context //nolint:containedctx // The time for which the handler is registered.
	cancel context.CancelFunc
	synced chan struct{}
}

func (i *lateInformer) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

func (i *lateInformer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{ResyncPeriod: &period})
}

func (i *lateInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	r := &registration{synced: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(i.remote.ctx)
	i.remote.start(func() { i.serve(r, h, o) })
	return r, nil
}

// serve keeps the handler until it is removed or the engagement ends.
func (i *lateInformer) serve(r *registration, h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) {
	defer r.cancel()
	select {
	case <-i.opened:
	case <-r.ctx.Done():
		return
	}
	handle, err := i.inner.AddEventHandlerWithOptions(h, o)
	if err != nil { // The informer has ended, and with it the epoch.
		i.remote.engagement.log.V(1).Info("Ignored a handler that was added too late", "error", err.Error())
		return
	}
	pass(r.ctx, handle.HasSyncedChecker(), r.synced)
	<-r.ctx.Done()
	_ = i.inner.RemoveEventHandler(handle) // It fails when the informer has ended, which is as good.
}

// RemoveEventHandler does not wait until that is done.
func (i *lateInformer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	if r, ok := handle.(*registration); ok {
		r.cancel()
	}
	return nil
}

var errLateIndex = errors.New("add indexes with the manager's GetFieldIndexer, so that every remote gets them")

func (i *lateInformer) AddIndexers(toolscache.Indexers) error { return errLateIndex }

func (i *lateInformer) HasSynced() bool { return isClosed(i.synced) }

func (i *lateInformer) HasSyncedChecker() toolscache.DoneChecker {
	return checker{"late informer", i.synced}
}

func (i *lateInformer) IsStopped() bool { return i.remote.ctx.Err() != nil }

func (r *registration) HasSynced() bool { return isClosed(r.synced) }

func (r *registration) HasSyncedChecker() toolscache.DoneChecker {
	return checker{"handler of a late informer", r.synced}
}

type checker struct {
	name string
	done <-chan struct{}
}

func (c checker) Name() string { return c.name }

func (c checker) Done() <-chan struct{} { return c.done }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
