// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// addKinds adds no defaults and conversions, which no client uses. It panics if the scheme has a kind with another type.
func addKinds(to, from *runtime.Scheme) {
	if from == nil {
		return
	}
	known := to.AllKnownTypes()
	groups := map[schema.GroupVersion]bool{}
	for gvk, kind := range from.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || isMeta(kind) {
			continue // AddToGroupVersion adds these
		}
		if have, ok := known[gvk]; ok && have == kind {
			continue
		}
		if obj, ok := reflect.New(kind).Interface().(runtime.Object); ok {
			to.AddKnownTypeWithName(gvk, obj)
			groups[gvk.GroupVersion()] = true
		}
	}
	for gv := range groups {
		metav1.AddToGroupVersion(to, gv)
	}
}

func isMeta(kind reflect.Type) bool {
	return kind.PkgPath() == reflect.TypeFor[metav1.Status]().PkgPath()
}
