// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// ObjectLabels returns the selector of the originals; nil selects all of them.
func (r Rule) ObjectLabels() labels.Selector { return selectorOf(r.Objects) }

// NamespaceLabels returns the selector of the namespaces of the originals, or nil if the rule has none.
func (r Rule) NamespaceLabels() labels.Selector {
	if r.Namespaces.Selector == nil {
		return nil
	}
	if s := selectorOf(r.Namespaces.Selector); s != nil {
		return s
	}
	return labels.Everything()
}

func selectorOf(of *metav1.LabelSelector) labels.Selector {
	if of == nil {
		return nil
	}
	s, err := metav1.LabelSelectorAsSelector(of)
	if err != nil {
		return labels.Nothing() // Validate refuses it.
	}
	if s.Empty() {
		return nil
	}
	return s
}

// Selector says which objects of a source are originals of a rule for one cluster. It sends no requests.
type Selector struct {
	objects    labels.Selector
	namespaces map[string]bool
	// labelsOf returns the labels of a namespace, and false if it does not exist.
	labelsOf func(namespace string) (map[string]string, bool)
	byLabels labels.Selector
}

// Selector returns the selector of the originals for a cluster. labelsOf returns the labels of a namespace of the source; it is
// called only for a rule that selects namespaces by labels.
func (r Rule) Selector(cluster string, labelsOf func(namespace string) (map[string]string, bool)) Selector {
	s := Selector{objects: r.ObjectLabels(), byLabels: r.NamespaceLabels(), labelsOf: labelsOf, namespaces: map[string]bool{}}
	for _, name := range r.SourceNamespaces(cluster) {
		s.namespaces[name] = true
	}
	return s
}

// Selects reports whether an object is an original of the rule. A copy of any rule is not.
func (s Selector) Selects(obj metav1.Object) bool {
	namespace := obj.GetNamespace()
	switch {
	case s.objects != nil && !s.objects.Matches(labels.Set(obj.GetLabels())), translate.IsCopy(obj), !mayUse(namespace):
		return false
	case namespace == "":
		return len(s.namespaces) == 0 && s.byLabels == nil
	case s.byLabels == nil:
		return s.namespaces[namespace]
	}
	found, ok := s.labelsOf(namespace)
	return ok && s.byLabels.Matches(labels.Set(found))
}

// IsEqual reports whether an object has the content of a copy. Metadata, the status, and what an API server has allocated are not
// compared, but what include names.
func IsEqual(copied, found *unstructured.Unstructured, include ...string) bool {
	found = found.DeepCopy()
	translate.WithoutAllocated(found, include)
	return equality.Semantic.DeepEqual(contentOf(copied), contentOf(found))
}

func contentOf(obj *unstructured.Unstructured) map[string]any {
	content := map[string]any{}
	for key, value := range obj.Object {
		switch key {
		case "metadata", "status", "apiVersion", "kind":
		default:
			content[key] = value
		}
	}
	return content
}
