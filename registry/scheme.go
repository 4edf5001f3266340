// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// copyScheme returns a scheme with the kinds of another one, to which more may be added while the other one is read.
// It has no defaults and no conversions of its own: no client uses any.
func copyScheme(from *runtime.Scheme) *runtime.Scheme {
	to := runtime.NewScheme()
	addKinds(to, from)
	return to
}

// addKinds adds the kinds to a scheme that it does not know. It panics where it knows a kind as another type.
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

// isMeta reports whether a type is one that every group has.
func isMeta(kind reflect.Type) bool {
	return kind.PkgPath() == reflect.TypeFor[metav1.Status]().PkgPath()
}
