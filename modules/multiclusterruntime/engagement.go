// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/clusterfx/clusterfx/registry"
)

// engagement is one epoch of a remote that controllers know. It ends with the epoch, or with cancel.
type engagement struct {
	provider *Provider
	aware    multicluster.Aware
	name     registry.ClusterName
	epoch    int64
	log      logr.Logger
	ctx      context.Context //nolint:containedctx // An engagement is a lifetime.
	cancel   context.CancelFunc
	after    <-chan struct{} // closed at the end of the previous engagement; may be nil
	done     chan struct{}
	again    chan struct{} // capacity 1; something is left to be done
	current  atomic.Pointer[remote]
}

// newEngagement is called with p.mu held.
func newEngagement(ctx context.Context, p *Provider, info registry.Status) *engagement {
	e := &engagement{
		provider: p, aware: p.aware, name: info.Name, epoch: info.Epoch,
		log:  p.options.Log.WithValues("cluster", info.Name, "epoch", info.Epoch),
		done: make(chan struct{}), again: make(chan struct{}, 1),
	}
	e.ctx, e.cancel = context.WithCancel(ctx)
	return e
}

func (e *engagement) isFor(epoch int64) bool { return e.epoch == epoch && e.ctx.Err() == nil }

func retries() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 30 * time.Second}
}

func (e *engagement) run() {
	defer e.provider.forget(e)
	defer close(e.done)
	defer e.cancel()
	if e.after != nil {
		<-e.after // An Engage that returns late must not replace its successor.
	}
	for pause := retries(); e.ctx.Err() == nil; {
		err := e.provider.registry.WithCluster(e.ctx, e.name, e.hold)
		if err == nil || isAway(err) {
			return // an event follows when there is work again
		}
		e.report(err)
		e.wait(e.ctx, pause.Step())
	}
}

func isAway(err error) bool {
	return errors.Is(err, registry.ErrNotReady) || errors.Is(err, registry.ErrNotFound) || errors.Is(err, registry.ErrElsewhere)
}

// wait ends with the time (zero: unlimited), with work, or with ctx.
func (e *engagement) wait(ctx context.Context, atMost time.Duration) {
	var over <-chan time.Time
	if atMost > 0 {
		over = time.After(atMost)
	}
	select {
	case <-over:
	case <-e.again:
	case <-ctx.Done():
	}
}

func (e *engagement) report(err error) {
	if meta.IsNoMatchError(err) {
		e.log.V(1).Info("The remote does not serve a kind; the hub retries", "error", err.Error())
		return
	}
	if panicked, ok := errors.AsType[*panicError](err); ok {
		e.log.Error(err, "Could not engage a remote; it is tried again", "stack", panicked.stack)
		return
	}
	e.log.Info("Could not engage a remote; it is tried again", "error", err.Error())
}

// hold has the remote engaged while it is lent.
func (e *engagement) hold(ctx context.Context, c cluster.Cluster) error {
	one := newRemote(ctx, e, c)
	e.current.Store(one)
	defer one.end()
	for pause := retries(); ctx.Err() == nil; {
		var next time.Duration
		if err := e.engage(one); err != nil && ctx.Err() == nil {
			e.report(err)
			next = pause.Step()
		}
		e.wait(ctx, next)
	}
	return nil
}

// engage adds missing indexes and calls Engage, again if need be: controllers that have the remote do nothing.
func (e *engagement) engage(one *remote) error {
	missing := e.index(one.ctx, one.cache)
	if missing != nil && !meta.IsNoMatchError(missing) {
		return missing
	}
	err := e.tell(one)
	if err == nil {
		err = missing // a kind is not served yet; all others are watched
	}
	return err
}

// tell runs code of controllers, such as cluster filters and constructors of handlers.
func (e *engagement) tell(one *remote) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: string(debug.Stack())}
		}
	}()
	return e.aware.Engage(one.ctx, multicluster.ClusterName(e.name), one)
}

// index returns why an index is missing; of a kind that is not served only without another error.
func (e *engagement) index(ctx context.Context, objects client.FieldIndexer) error {
	var unserved error
	for _, one := range e.provider.allIndexes() {
		err := objects.IndexField(ctx, one.obj, one.field, one.extract)
		switch {
		case err == nil:
		case meta.IsNoMatchError(err):
			unserved = fmt.Errorf("add the index %s: %w", one.field, err)
		default:
			return fmt.Errorf("add the index %s: %w", one.field, err)
		}
	}
	return unserved
}

// indexNow is for an engaged remote. The engagement retries failures.
func (e *engagement) indexNow(ctx context.Context) {
	one := e.current.Load()
	if one == nil || e.index(ctx, one.cache) == nil {
		return // in the first case it is still to come
	}
	select {
	case e.again <- struct{}{}:
	default:
	}
}

type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }
