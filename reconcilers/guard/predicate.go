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

// Predicate drops the events of locks, and of the conditions that the host has had a Controller for. Every controller
// with a Host must use it (AddTo and Module do): a failed task changes them with each try, which would undo the
// backoff. The event of a lock that another replica releases passes.
//
// A Host and its predicate are for one controller. A controller that waits for the condition of another needs a Host
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
		return h.isReleased(was, is) || !equality.Semantic.DeepEqual(h.without(was), h.without(is))
	}}
}

func (h *Host[O]) isReleased(was, is O) bool {
	if h.options.Locks == nil {
		return false
	}
	now := *h.options.Locks(is)
	for _, old := range *h.options.Locks(was) {
		i := slices.IndexFunc(now, func(l lock.State) bool { return l.Type == old.Type })
		if old.Holder != "" && old.Holder != h.holder && i >= 0 && now[i].Holder == "" {
			return true
		}
	}
	return false
}

func (h *Host[O]) without(obj O) O {
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
		_, isOurs := h.types.Load(c.Type)
		return isOurs
	})
	return c
}
