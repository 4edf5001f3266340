// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// ObjectLabels selects the originals; nil selects all.
func (r Rule) ObjectLabels() labels.Selector { return selectorOf(r.Objects.Selector) }

// SelectsCluster reports whether the rule is for a Cluster with these labels.
func (r Rule) SelectsCluster(cluster map[string]string) bool {
	s := selectorOf(r.Clusters)
	return s == nil || s.Matches(labels.Set(cluster))
}

// NamespaceLabels selects their namespaces; nil if the rule does not.
func (r Rule) NamespaceLabels() labels.Selector {
	if r.Namespaces.Selector == nil {
		return nil
	}
	if s := selectorOf(r.Namespaces.Selector); s != nil {
		return s
	}
	return labels.Everything()
}

// selectorOf returns nil for all.
func selectorOf(of *hubv1.LabelSelector) labels.Selector {
	s, err := parsed(of)
	switch {
	case err != nil:
		return labels.Nothing() // Compile refuses it.
	case of == nil, s.Empty():
		return nil
	}
	return s
}

// parsed selects nothing for nil.
func parsed(of *hubv1.LabelSelector) (labels.Selector, error) {
	if of == nil {
		return labels.Nothing(), nil
	}
	s := &metav1.LabelSelector{MatchLabels: plain(of.MatchLabels)}
	for _, r := range of.MatchExpressions {
		one := metav1.LabelSelectorRequirement{Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator)}
		for _, value := range r.Values {
			one.Values = append(one.Values, string(value))
		}
		s.MatchExpressions = append(s.MatchExpressions, one)
	}
	return metav1.LabelSelectorAsSelector(s)
}

func plain(of map[string]hubv1.LabelValue) map[string]string {
	all := make(map[string]string, len(of))
	for key, value := range of {
		all[key] = string(value)
	}
	return all
}

// Selector says which objects are originals of a rule for one cluster. It sends no requests.
type Selector struct {
	objects    labels.Selector
	names      []string // of objects; all if empty
	namespaces map[string]bool
	labelsOf   func(namespace string) (map[string]string, bool) // false for a missing namespace
	byLabels   labels.Selector
}

// Selector calls labelsOf, about a namespace of the source, only for a rule that selects namespaces by labels.
func (r Rule) Selector(cluster string, labelsOf func(namespace string) (map[string]string, bool)) Selector {
	s := Selector{objects: r.ObjectLabels(), names: r.Objects.Names, byLabels: r.NamespaceLabels(), labelsOf: labelsOf, namespaces: map[string]bool{}}
	for _, name := range r.SourceNamespaces(cluster) {
		s.namespaces[name] = true
	}
	return s
}

// MaySelect looks at name, namespace and labels of an object, and not at the labels of its namespace.
func (s Selector) MaySelect(obj metav1.Object) bool {
	namespace := obj.GetNamespace()
	return (len(s.names) == 0 || slices.Contains(s.names, obj.GetName())) && (s.objects == nil || s.objects.Matches(labels.Set(obj.GetLabels()))) &&
		(s.byLabels != nil && namespace != "" || s.namespaces[namespace] || namespace == "" && s.byLabels == nil && len(s.namespaces) == 0)
}

// Selects is false for a copy of any rule.
func (s Selector) Selects(obj metav1.Object) bool {
	namespace := obj.GetNamespace()
	switch {
	case !s.MaySelect(obj), translate.IsCopy(obj), !mayUse(namespace):
		return false
	case s.byLabels == nil:
		return true
	}
	if isOfKubernetes(namespace) {
		return false
	}
	found, ok := s.labelsOf(namespace)
	return ok && s.byLabels.Matches(labels.Set(found))
}

// IsEqual ignores metadata, the status and what an API server has allocated, but for include.
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
