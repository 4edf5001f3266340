// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
)

// Predicate returns a predicate for the events of the objects, which the controller of a reconciler needs that has a
// Host; AddTo and Module have it. It drops the events of changes that Guards make: of locks, and of the conditions that
// the host has had a Controller for. A failed task changes them with each try, so without the predicate an object
// whose task fails is tried again at once, whatever the backoff of the controller's queue. A lock that another replica
// releases is let through.
//
// It is the predicate of one controller, as the Host is one controller's: of two controllers that share a Host neither
// hears of the conditions of the other. A controller that waits for the condition of another one has a Host of its own,
// with another Options.Name.
//
//	registry.ControllerManagedBy(mgr).For(&v1.Tunnel{}, builder.WithPredicates(host.Predicate()))
func (h *Host[O]) Predicate() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(O)
		is, also := e.ObjectNew.(O)
		if !ok || !also || was.GetResourceVersion() == is.GetResourceVersion() { // a resync
			return true
		}
		own := h.types.all()
		return h.isReleased(was, is) || !equality.Semantic.DeepEqual(h.without(was, own), h.without(is, own))
	}}
}

// isReleased reports whether somebody else has given back a lock.
func (h *Host[O]) isReleased(was, is O) bool {
	if h.options.Locks == nil {
		return false
	}
	now := *h.options.Locks(is)
	for _, old := range *h.options.Locks(was) {
		i := slices.IndexFunc(now, func(l lock.Record) bool { return l.Type == old.Type })
		if old.Holder != "" && old.Holder != h.holder && i >= 0 && now[i].Holder == "" {
			return true
		}
	}
	return false
}

// without returns the object without what guards write.
func (h *Host[O]) without(obj O, conditionTypes []string) O {
	c := obj.DeepCopyObject().(O)
	c.SetResourceVersion("")
	c.SetManagedFields(nil)
	if h.options.Conditions == nil {
		return c
	}
	if h.options.Locks != nil {
		*h.options.Locks(c) = nil
	}
	conditions := h.options.Conditions(c)
	*conditions = slices.DeleteFunc(*conditions, func(c metav1.Condition) bool {
		return slices.Contains(conditionTypes, c.Type)
	})
	return c
}

// conditionTypes are those that the controllers of a host are for.
type conditionTypes struct {
	mu    sync.Mutex // protects known, for operations in memory only
	known []string   // not changed but replaced
}

func (c *conditionTypes) add(conditionType string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.known, conditionType) {
		c.known = append(slices.Clone(c.known), conditionType)
	}
}

func (c *conditionTypes) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}
