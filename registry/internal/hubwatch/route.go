// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// By is the property of an object that is its key.
type By int

// The zero By is none of these.
const (
	_ By = iota
	ByNamespace
	ByLabel
	ByName
	// All gives each object the same key, so that it belongs to every subscription of the route.
	All
)

// Route tells the key of an object, and so its subscriptions.
type Route struct {
	By    By
	Label string
}

// keyOfAll is also the key of the subscriptions, whatever Want.Keys are.
const keyOfAll = "*"

// keyOf may be empty.
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
