// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// By is the property of an object that is its key.
type By int

// The properties. The zero By is none of them.
const (
	_ By = iota
	ByNamespace
	ByLabel
	ByName
	// All is no property: each object has the same key, so it belongs to every subscription of the route.
	All
)

// Route tells the key of an object, which decides the subscriptions that the object belongs to.
type Route struct {
	By By
	// Label is the label whose value is the key, for ByLabel.
	Label string
}

// keyOfAll is the key of each object of the Route All. Its subscriptions have this key, whatever Want.Keys are.
const keyOfAll = "*"

// keyOf returns the key of an object; empty for none.
func (r Route) keyOf(obj client.Object) string {
	if obj == nil {
		return ""
	}
	switch r.By {
	case ByNamespace:
		return obj.GetNamespace()
	case ByLabel:
		return obj.GetLabels()[r.Label]
	case ByName:
		return obj.GetName()
	case All:
		return keyOfAll
	}
	return ""
}

// Has reports whether an object belongs to an app with these keys.
func (r Route) Has(obj client.Object, keys []string) bool {
	return r.By == All || slices.Contains(keys, r.keyOf(obj))
}
