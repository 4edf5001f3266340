// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/allocated"
)

func (t *translator[T]) Metadata(up T, to types.NamespacedName) T {
	down := withoutAllocated(up.DeepCopyObject().(T), t.kindOf(), t.options.Include) //nolint:forcetypeassert // A deep copy has the type of the original.
	Clean(down)
	down.SetName(to.Name)
	down.SetNamespace(to.Namespace)
	if to.Namespace != "" && to.Namespace == t.id.TargetNamespace && t.id.Owner.UID != "" {
		down.SetOwnerReferences([]metav1.OwnerReference{t.id.Owner})
	}
	labels := t.labelsOf(up)
	notes := t.annotationsOf(up)
	t.mark(up, to, labels, notes)
	down.SetLabels(labels)
	down.SetAnnotations(notes)
	return down
}

func withoutAllocated[T client.Object](obj T, kind schema.GroupVersionKind, include []string) T {
	if !allocated.Has(kind.GroupKind()) {
		return obj
	}
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		allocated.Without(kind, u.Object, obj.GetManagedFields(), include)
		return obj
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return obj // Whoever applies it gets the error.
	}
	allocated.Without(kind, fields, obj.GetManagedFields(), include)
	reduced := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(T) //nolint:forcetypeassert // It is a new object of the type.
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, reduced) != nil {
		return obj
	}
	return reduced
}

// WithoutAllocated removes what an API server has allocated, by its managedFields, but for include; see
// Options.Include.
func WithoutAllocated(obj *unstructured.Unstructured, include []string) {
	allocated.Without(obj.GroupVersionKind(), obj.Object, obj.GetManagedFields(), include)
}

// WithoutLocal removes what belongs to one cluster: what managed says is allocated, and labels and annotations of one
// cluster.
func WithoutLocal[T client.Object](obj T, kind schema.GroupVersionKind, managed []metav1.ManagedFieldsEntry) T {
	obj.SetManagedFields(managed)
	obj = withoutAllocated(obj, kind, nil)
	without := func(all map[string]string) map[string]string {
		all = maps.Clone(all)
		maps.DeleteFunc(all, func(key, _ string) bool { return isOfOneCluster(key) })
		return all
	}
	obj.SetLabels(without(obj.GetLabels()))
	obj.SetAnnotations(without(obj.GetAnnotations()))
	return obj
}

// Clean removes the metadata of one API server.
func Clean(obj metav1.Object) {
	obj.SetGenerateName("")
	obj.SetSelfLink("")
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetGeneration(0)
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetOwnerReferences(nil)
	obj.SetFinalizers(nil)
	obj.SetManagedFields(nil)
}

func (t *translator[T]) mark(up T, to types.NamespacedName, labels, notes map[string]string) {
	setList(notes, t.keys.ManagedAnnotations, notes)
	setList(notes, t.keys.ManagedLabels, labels)
	labels[t.keys.ManagedBy] = t.managedBy
	if up.GetNamespace() != "" && t.form != clusterScoped {
		labels[t.keys.Namespace] = up.GetNamespace()
		notes[t.keys.ObjectNamespace] = up.GetNamespace()
	}
	if to.Namespace != "" {
		notes[t.keys.HostNamespace] = to.Namespace
	}
	notes[t.keys.ObjectName] = up.GetName()
	notes[t.keys.ObjectUID] = string(up.GetUID())
	notes[t.keys.ObjectKind] = t.kindOf().String()
	if generation := up.GetGeneration(); generation > 0 {
		notes[t.keys.Generation] = strconv.FormatInt(generation, 10)
	}
	notes[t.keys.HostName] = to.Name
}

func setList(notes map[string]string, key string, of map[string]string) {
	if list := strings.Join(slices.Sorted(maps.Keys(of)), "\n"); list != "" {
		notes[key] = list
	}
}

func (t *translator[T]) labelsOf(up T) map[string]string {
	labels := map[string]string{}
	for key, value := range up.GetLabels() {
		if !t.reserved(key) {
			labels[t.labelKey(key)] = value
		}
	}
	return labels
}

func (t *translator[T]) annotationsOf(up T) map[string]string {
	notes := map[string]string{}
	for key, value := range up.GetAnnotations() {
		if !t.reserved(key) && !slices.Contains(t.options.ExcludedAnnotations, key) {
			notes[key] = value
		}
	}
	return notes
}

func (t *translator[T]) reserved(key string) bool {
	if t.keys.Has(key) || t.options.Keep != nil && t.options.Keep(key) {
		return t.keys.Has(key)
	}
	return isOfOneCluster(key) || t.options.Reserved != nil && t.options.Reserved(key)
}

func (t *translator[T]) MetadataUpdate(up, down T) (changed bool, annotations, labels map[string]string) {
	to := types.NamespacedName{Namespace: down.GetNamespace(), Name: down.GetName()}
	labels, annotations = t.labelsOf(up), t.annotationsOf(up)
	before := down.GetAnnotations()
	t.mark(up, to, labels, annotations)
	keep(annotations, before, before[t.keys.ManagedAnnotations], t.keys)
	keep(labels, down.GetLabels(), before[t.keys.ManagedLabels], t.keys)
	if fields := before[t.keys.Fields]; fields != "" {
		annotations[t.keys.Fields] = fields
	}
	if by := down.GetLabels()[t.keys.ControlledBy]; by != "" {
		labels[t.keys.ControlledBy] = by
	}
	changed = !maps.Equal(annotations, before) || !maps.Equal(labels, down.GetLabels())
	return changed, annotations, labels
}

// keep adds the downstream keys that do not come from the original, now or before.
func keep(all, before map[string]string, managed string, marks Keys) {
	from := strings.Split(managed, "\n")
	for key, value := range before {
		if _, known := all[key]; !known && !marks.Has(key) && !slices.Contains(from, key) {
			all[key] = value
		}
	}
}

// Selector translates a selector of originals into one of copies. Only Options.HashLabels makes a difference.
func Selector[T client.Object](t Translator[T], s metav1.LabelSelector) metav1.LabelSelector {
	known, ok := t.(*translator[T])
	if !ok {
		return s
	}
	translated := *s.DeepCopy()
	translated.MatchLabels = nil
	for key, value := range s.MatchLabels {
		if translated.MatchLabels == nil {
			translated.MatchLabels = map[string]string{}
		}
		translated.MatchLabels[known.labelKey(key)] = value
	}
	for i := range translated.MatchExpressions {
		translated.MatchExpressions[i].Key = known.labelKey(s.MatchExpressions[i].Key)
	}
	return translated
}
