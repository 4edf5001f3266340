// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Observer is a Reconciler whose entities are also in an external system that reports no changes.
type Observer[T any] interface {
	// Observe reports whether an entity has to be reconciled. Workers call it once in Options.Resync in place of a
	// reconcile, also while the entity is reconciled. ctx ends after Options.ObserveWithin. An error is logged, and
	// the entity is reconciled.
	Observe(ctx context.Context, e *Entity[T]) (differs bool, err error)
}

// Cleaner is a Reconciler that has something for the life of its controller.
type Cleaner interface {
	// Clean is called once, when the controller has ended and no reconcile runs. ctx ends after Options.CleanWithin.
	Clean(ctx context.Context) error
}

// phases divide the entities, so that they are not all observed at once.
const phases = 100

// observe requests the Observer for each entity once in an interval. The phase follows from key and cluster, so the
// controllers of several clusters observe an entity at different times.
func (c *Controller[T]) observe(ctx context.Context) error {
	phase := 0
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		for _, key := range c.store.bucket.Keys() {
			if ctx.Err() == nil && c.phaseOf(key) == phase {
				c.queue.request(Request{Key: key, observe: true}, OperationResync, 0)
			}
		}
		phase = (phase + 1) % phases
	}, max(c.options.Resync/phases, time.Millisecond))
	return nil
}

func (c *Controller[T]) phaseOf(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.options.Cluster + " " + key)) // A hash returns no error.
	return int(h.Sum32() % phases)
}

func (c *Controller[T]) observeOne(ctx context.Context, o Observer[T], key string) {
	e, err := c.store.Get(key)
	if err != nil || e.Err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.ObserveWithin)
	defer cancel()
	differs, err := o.Observe(ctx, e)
	if err != nil {
		c.log.Error(err, "Failed to observe an entity; it is reconciled", "key", key)
	}
	if differs || err != nil {
		c.queue.add(key, OperationResync, 0)
	}
}

func (c *Controller[T]) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Add(1)
	return true
}

func (c *Controller[T]) clean(ctx context.Context, cleaner Cleaner) error {
	<-ctx.Done()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.CleanWithin)
	defer cancel()
	return cleaner.Clean(ctx)
}
