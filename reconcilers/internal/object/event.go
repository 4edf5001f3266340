// SPDX-License-Identifier: Apache-2.0

package object

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"
)

// InAnyVersion returns the reference for an event about a part of an object: it names the object without its
// resourceVersion. client-go combines events into a series only if they refer to the same resourceVersion, so an event
// that is recorded with each retry would become another Event each time. Events about two parts must name the parts, in
// the form of a field path. An empty part means the whole object.
func InAnyVersion(scheme *runtime.Scheme, about runtime.Object, part string) runtime.Object {
	to, err := reference.GetReference(scheme, about)
	if err != nil {
		return about // the recorder reports the error
	}
	to.ResourceVersion, to.FieldPath = "", part
	return to
}
