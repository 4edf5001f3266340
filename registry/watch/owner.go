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

// OwnerAnnotation names the object of the hub that owns an object in a remote: kind and group, namespace, name,
// separated by slashes. Kubernetes would collect an object whose owner reference leads to another cluster.
const OwnerAnnotation = "clusterfx.dev/owned-by"

// SetOwner annotates an object for a remote with its owner in the hub, for OwnsRemote. It fails if another object owns
// it, or if the scheme lacks the owner's kind.
//
// The remote can change the annotation, which decides only what request an object makes: a reconciler must record
// elsewhere what it has created.
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

func ownerIn(object client.Object, kind schema.GroupKind) (key types.NamespacedName, ok bool) {
	rest, ok := strings.CutPrefix(object.GetAnnotations()[OwnerAnnotation], kind.String()+"/")
	namespace, name, found := strings.Cut(rest, "/")
	if !ok || !found || name == "" || len(content.IsPathSegmentName(name)) > 0 ||
		namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, true
}
