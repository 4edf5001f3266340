// SPDX-License-Identifier: Apache-2.0

package object

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"
)

// InAnyVersion returns what an event about a part of an object is to name: the object, in whichever of its versions.
// client-go makes one series of events only if they are about the same version, so what is written with each try
// would become another Event each time. What is about two parts has to name them, in the form of a field path. An
// empty part is all of the object.
func InAnyVersion(scheme *runtime.Scheme, about runtime.Object, part string) runtime.Object {
	to, err := reference.GetReference(scheme, about)
	if err != nil {
		return about // which the recorder says what it thinks of
	}
	to.ResourceVersion, to.FieldPath = "", part
	return to
}
