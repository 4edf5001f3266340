// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
)

// Controller makes the changes of a provider: external ones in Guard, those of the object and its children with the
// other methods. It is for one condition of one object, one reconcile and one goroutine, see Host.Controller.
type Controller[O client.Object] struct {
	host         *Host[O]
	store        entryStore[O]
	key          lockKey
	object       O
	precondition *precondition
	seen         entry    // when the object was read, or after our last write
	running      *run     // of Guard
	letGo        []string // finalizers to remove after the task

	gone       bool // we removed the last finalizer of a deleted object
	failed     bool // a Guard has reported an error
	progressed bool // the value of Settled was written
}

// Object returns the object, which every write of the controller refreshes in place.
func (c *Controller[O]) Object() O { return c.object }

// Namespace returns the object's namespace, empty for a cluster-scoped object.
func (c *Controller[O]) Namespace() string { return c.object.GetNamespace() }

// Condition returns the condition as it was read, or after our last write. If there is none, the status is Unknown
// and the reason empty.
func (c *Controller[O]) Condition() metav1.Condition {
	if c.seen.condition.Type == "" {
		return metav1.Condition{Type: c.key.kind, Status: metav1.ConditionUnknown}
	}
	return c.seen.condition
}

// Settled returns the reason that the last finished task, or UpdateCondition, left. It survives crashes and failures,
// so a provider continues from it. It is empty before the first step.
func (c *Controller[O]) Settled() string { return c.seen.lock.Settled }

// Get reads from the client, which may be a cache.
func (c *Controller[O]) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.host.client.Get(ctx, key, obj, opts...)
}

// List reads from the client, which may be a cache.
func (c *Controller[O]) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.host.client.List(ctx, list, opts...)
}

// Eventf records an event about the object. reason and action are CamelCase words. A note of more than 1 KiB is cut.
//
//nolint:revive // the parameters are those of an EventRecorder, without the objects
func (c *Controller[O]) Eventf(eventType, reason, action, note string, args ...any) {
	c.host.record(c.object, eventType, reason, action, fmt.Sprintf(note, args...))
}

// UpdateCondition sets the condition, and writes only differences. Within a task it reports progress and the lock
// stays. Outside of a task Settled returns the reason afterwards; the error is ErrLocked while another process has a
// task, and ErrStale if the condition has changed since the object was read.
func (c *Controller[O]) UpdateCondition(
	ctx context.Context, status metav1.ConditionStatus, reason, message string,
) error {
	wanted := c.seen
	wanted.set(status, reason, message, c.precondition.generation)
	settled := wanted.condition.Reason
	if c.gone || c.seen.condition == wanted.condition && (c.running != nil || c.seen.lock.Settled == settled) {
		return nil
	}
	err := c.changeEntry(ctx, func(e *entry) {
		if c.running == nil {
			e.lock.Settled = settled
		}
		e.set(status, reason, message, c.precondition.generation)
	})
	if err != nil {
		return fmt.Errorf("set condition %s of %s: %w", c.key.kind, c.object.GetName(), err)
	}
	c.progressed = c.progressed || c.running == nil
	return nil
}

func (c *Controller[O]) changeEntry(ctx context.Context, f func(*entry)) error {
	if c.running == nil {
		if _, taken := c.host.turns.LoadOrStore(c.key, true); taken {
			return c.host.busy()
		}
		defer c.host.turns.Delete(c.key)
	}
	s, err := c.change(ctx, func(s *snapshot[O]) error {
		if err := c.mayChange(s); err != nil {
			return err
		}
		f(&s.entry)
		return nil
	})
	if err == nil {
		c.refresh(s)
	}
	return err
}

// UpdateStatus reads the object live, calls mutate to change its status, and writes the differences; after a conflict
// it calls mutate again. It reverts changes of conditions and locks (use UpdateCondition). The error is ErrLockLost
// within a task whose lock another process has taken, and ErrStale outside of a task if the object has changed.
func (c *Controller[O]) UpdateStatus(ctx context.Context, mutate func(obj O) error) error {
	if c.gone {
		return nil
	}
	err := retry.RetryOnConflict(wait.Backoff{Steps: maxConflicts + 1}, func() error { return c.tryStatus(ctx, mutate) })
	if err != nil {
		return fmt.Errorf("update the status of %s: %w", c.object.GetName(), err)
	}
	return nil
}

func (c *Controller[O]) tryStatus(ctx context.Context, mutate func(obj O) error) error {
	s, err := c.store.read(ctx)
	if err != nil {
		return gone(err)
	}
	switch {
	case s.object.GetUID() != c.key.uid:
		return ErrStale
	case c.running != nil && !c.running.owns(s.entry):
		return ErrLockLost
	case c.running == nil && !c.precondition.holdsFor(s.object):
		return ErrStale
	}
	before := s.object.DeepCopyObject().(O)
	if err := mutate(s.object); err != nil {
		return err
	}
	if o := c.host.options; o.Conditions != nil {
		*o.Conditions(s.object) = slices.Clone(*o.Conditions(before))
		if o.Locks != nil {
			*o.Locks(s.object) = slices.Clone(*o.Locks(before))
		}
	}
	if !reflect.DeepEqual(before, s.object) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		err := c.host.client.Status().Patch(ctx, s.object, patch, client.FieldOwner(c.host.options.identity()))
		if err != nil {
			return err
		}
	}
	c.show(s.object)
	return nil
}

func (c *Controller[O]) mayChange(s *snapshot[O]) error {
	if c.running != nil {
		if !c.running.owns(s.entry) {
			return ErrLockLost
		}
		return nil
	}
	if err := c.isFree(s.lock); err != nil {
		return err
	}
	if !c.precondition.holdsFor(s.object) || c.seen.differs(s.entry) {
		return ErrStale
	}
	return nil
}

// isFree returns a LockedError if another process holds the lock, which was just read.
func (c *Controller[O]) isFree(l lock.State) error {
	if l.Holder == "" || l.Holder == c.host.holder {
		return nil
	}
	if d := c.host.remaining(c.key, l); d > 0 {
		return &LockedError{Holder: l.Holder, RetryAfter: d}
	}
	return nil
}

func (c *Controller[O]) refresh(s snapshot[O]) {
	c.seen = s.entry
	c.show(s.object)
}

func (c *Controller[O]) show(written O) {
	overwrite(c.object, written)
	c.precondition.resourceVersion = written.GetResourceVersion()
}

func overwrite[T client.Object](obj, like T) {
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(like).Elem())
}
