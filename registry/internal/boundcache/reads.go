// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Get reads one object. It waits for an informer no longer than Options.Timeout.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.NoteReader(c.options.Reader(ctx), obj)
	return c.read(ctx, func(ctx context.Context) error { return c.Cache.Get(ctx, key, obj, opts...) })
}

// List reads objects. It waits for an informer no longer than Options.Timeout.
func (c *Cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.NoteReader(c.options.Reader(ctx), list)
	return c.read(ctx, func(ctx context.Context) error { return c.Cache.List(ctx, list, opts...) })
}

// NoteReader notes that a module reads objects: the first read starts their informer.
func (c *Cache) NoteReader(module string, obj runtime.Object) {
	if module != "" && c.readers.add(readerOf(module, obj)) {
		c.budget.watchedBy(c.KindOf(obj), module)
	}
}

func (c *Cache) read(ctx context.Context, read func(context.Context) error) error {
	if c.options.Context.Err() != nil {
		return context.Cause(c.options.Context)
	}
	// Most reads find a synced informer and do not wait: those need no deadline, which takes time and memory.
	if err := read(c.noWait); !hadToWait(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	defer context.AfterFunc(c.options.Context, cancel)()
	for {
		err := read(ctx)
		// The inner cache starts a few instructions after WaitForCacheSync has returned.
		var early *cache.ErrCacheNotStarted
		if !errors.As(err, &early) || !c.isRunning() {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func hadToWait(err error) bool {
	var early *cache.ErrCacheNotStarted
	return apierrors.IsTimeout(err) || errors.Is(err, context.Canceled) || errors.As(err, &early)
}

func (c *Cache) isRunning() bool {
	select {
	case <-c.running:
		return true
	default:
		return false
	}
}
