// SPDX-License-Identifier: Apache-2.0

package object

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"
)

// InAnyVersion is the reference for an event, without the resourceVersion: client-go makes a series of equal
// references only, so each retry would become another Event. part is a field path, empty for the whole object.
func InAnyVersion(scheme *runtime.Scheme, about runtime.Object, part string) runtime.Object {
	to, err := reference.GetReference(scheme, about)
	if err != nil {
		return about // the recorder reports the error
	}
	to.ResourceVersion, to.FieldPath = "", part
	return to
}
