// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
)

// predicate drops the events of changes that are Guards' own: of locks, and of conditions of those types. A failed task
// changes them with each try, so without it an object whose task fails would be tried again at once, whatever the
// backoff. What is released by another replica is let through.
func (h *Host[O]) predicate(conditionTypes ...string) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(O)
		is, also := e.ObjectNew.(O)
		if !ok || !also || was.GetResourceVersion() == is.GetResourceVersion() { // a resync
			return true
		}
		return h.isReleased(was, is) || !equality.Semantic.DeepEqual(h.without(was, conditionTypes), h.without(is, conditionTypes))
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
