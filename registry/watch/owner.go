// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// OwnerAnnotation says which object of the hub an object in a remote belongs to: its kind and group, its
// namespace and its name, with slashes between. An owner reference cannot say so, since it names objects
// of the same cluster; and Kubernetes would collect an object whose owner it cannot find.
const OwnerAnnotation = "clusterfx.dev/owned-by"

// SetOwner notes on an object that is to be written to a remote which object of the hub it belongs to, so
// that OwnsRemote finds the way back. It fails if another one owns it already, or if the scheme does not
// know the owner's kind.
//
// The note is a remote's to change. It says whose request an object makes and nothing more: a reconciler
// must know by itself what it has made.
func SetOwner(owner, object client.Object, scheme *runtime.Scheme) error {
	gvk, err := apiutil.GVKForObject(owner, scheme)
	if err != nil {
		return fmt.Errorf("set the owner: %w", err)
	}
	want := ownerOf(gvk.GroupKind(), client.ObjectKeyFromObject(owner))
	annotations := object.GetAnnotations()
	if has, found := annotations[OwnerAnnotation]; found && has != want {
		return fmt.Errorf("set the owner of %s: it belongs to %s already", client.ObjectKeyFromObject(object), has)
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[OwnerAnnotation] = want
	object.SetAnnotations(annotations)
	return nil
}

func ownerOf(kind schema.GroupKind, key types.NamespacedName) string {
	return strings.Join([]string{kind.String(), key.Namespace, key.Name}, "/")
}

// ownerIn returns the owner of that kind which an object in a remote names.
func ownerIn(object client.Object, kind schema.GroupKind) (key types.NamespacedName, ok bool) {
	rest, ok := strings.CutPrefix(object.GetAnnotations()[OwnerAnnotation], kind.String()+"/")
	namespace, name, found := strings.Cut(rest, "/")
	if !ok || !found || name == "" || len(content.IsPathSegmentName(name)) > 0 ||
		namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, true
}
