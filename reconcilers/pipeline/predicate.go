// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Predicate drops the events of the pipeline's own conditions: otherwise a pass would begin the next. The controller
// must use it; AddTo does. If another writer changes them, the next pass restores them: within Options.Resync, or
// after a terminal error only when the object changes.
func (r *Reconciler[O]) Predicate() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(O)
		is, also := e.ObjectNew.(O)
		if !ok || !also || r.options.Conditions == nil || was.GetResourceVersion() == is.GetResourceVersion() { // a resync
			return true
		}
		if was.GetGeneration() != is.GetGeneration() {
			return true
		}
		one, known := r.without(was)
		other, also := r.without(is)
		return !known || !also || !reflect.DeepEqual(one, other)
	}}
}

// without returns an object without the pipeline's conditions, and false if it cannot be converted.
func (r *Reconciler[O]) without(obj O) (map[string]any, bool) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, false
	}
	unstructured.RemoveNestedField(content, "metadata", "resourceVersion")
	unstructured.RemoveNestedField(content, "metadata", "managedFields")
	status, _ := content["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	conditions = slices.DeleteFunc(conditions, r.isOurs)
	if len(conditions) > 0 {
		status["conditions"] = conditions
	} else {
		delete(status, "conditions")
	}
	if len(status) == 0 {
		delete(content, "status")
	}
	return content, true
}

func (r *Reconciler[O]) isOurs(condition any) bool {
	fields, _ := condition.(map[string]any)
	for _, kind := range []string{conditionReady, conditionReconciling, conditionStalled} {
		if fields["type"] == r.options.ConditionPrefix+kind {
			return true
		}
	}
	return false
}
