// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// ErrNoCopy means that the object is no copy of the rule.
var ErrNoCopy = errors.New("the object is not a copy of this rule")

type translator = syncer.Translator[*unstructured.Unstructured]

func translatorOf(r rules.Rule, at rules.Place) (translator, error) {
	return translate.Bind(r.Translator(at), r.Identity(at), r.GVK())
}

func unstructuredOf(r rules.Rule, m *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(r.GVK())
	u.SetNamespace(m.Namespace)
	u.SetName(m.Name)
	u.SetUID(m.UID)
	u.SetLabels(m.Labels)
	u.SetAnnotations(m.Annotations)
	return u
}

// Name is a name in both directions.
type Name struct {
	// By Rule and for Cluster, an object is copied.
	Rule, Cluster string
	// Object is an original or a copy, as NAMESPACE/NAME or NAME. Leave out the namespace if the rule has only one.
	Object string
}

// Copies returns the names that the copy of an original may have, in the hub's order, without a request to the remote.
func (f *Fleet) Copies(ctx context.Context, n Name) ([]types.NamespacedName, error) {
	r, _, err := f.rule(ctx, n)
	if err != nil {
		return nil, err
	}
	namespaces := r.SourceNamespaces(n.Cluster)
	key, err := keyOf(r, n.Object, namespaces)
	if err != nil {
		return nil, err
	}
	if len(namespaces) > 0 && !slices.Contains(namespaces, key.Namespace) {
		return nil, fmt.Errorf("rule %s copies no object of namespace %s: use one of %s", r.Name, key.Namespace, strings.Join(namespaces, ", "))
	}
	t, err := translatorOf(r, f.at(n.Cluster))
	if err != nil {
		return nil, err
	}
	names := t.ToDownstream(key)
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no name that its copy could have", key)
	}
	return names, nil
}

// Original returns the original that a copy's marks name. The error of another object wraps ErrNoCopy.
func (f *Fleet) Original(ctx context.Context, n Name) (types.NamespacedName, error) {
	var original types.NamespacedName
	r, c, err := f.rule(ctx, n)
	if err != nil {
		return original, err
	}
	var namespaces []string
	if to := r.Identity(f.at(n.Cluster)).TargetNamespace; to != "" {
		namespaces = []string{to}
	}
	key, err := keyOf(r, n.Object, namespaces)
	if err != nil {
		return original, err
	}
	t, err := translatorOf(r, f.at(n.Cluster))
	if err != nil {
		return original, err
	}
	err = f.sides(ctx, r, c, func(_, target *side) error {
		found, err := target.get(ctx, r.GVK(), key)
		if err != nil {
			return target.explain(r.GVK(), fmt.Errorf("read %s %s: %w", r.GVK().Kind, key, err))
		}
		up, ours := t.ToUpstream(unstructuredOf(r, found))
		if !ours {
			return fmt.Errorf("%s %s in %s: %w", r.GVK().Kind, key, target.What, ErrNoCopy)
		}
		original = up
		return nil
	})
	return original, err
}

func (f *Fleet) rule(ctx context.Context, n Name) (rules.Rule, *hubv1.Cluster, error) {
	found, err := f.clusters(ctx, []string{n.Cluster})
	if err != nil {
		return rules.Rule{}, nil, err
	}
	r, err := f.Config.Find(n.Rule, found[0].Labels)
	if err == nil {
		err = r.CheckNamespaces(n.Cluster)
	}
	return r, &found[0], err
}

func (f *Fleet) sides(ctx context.Context, r rules.Rule, c *hubv1.Cluster, do func(source, target *side) error) error {
	if err := r.CheckNamespaces(c.Name); err != nil {
		return err
	}
	hub, err := sideOf(f.Hub)
	if err != nil {
		return err
	}
	return f.with(ctx, c, func(remote *side) error {
		if r.From == rules.FromHub {
			return do(hub, remote)
		}
		return do(remote, hub)
	})
}

// keyOf takes a name without a namespace if there is only one.
func keyOf(r rules.Rule, text string, namespaces []string) (client.ObjectKey, error) {
	namespace, name, ok := strings.Cut(text, "/")
	switch {
	case !ok && r.IsNamespaced() && len(namespaces) == 1:
		return client.ObjectKey{Namespace: namespaces[0], Name: text}, nil
	case !ok && !r.IsNamespaced() && text != "":
		return client.ObjectKey{Name: text}, nil
	case !ok && r.IsNamespaced():
		return client.ObjectKey{}, fmt.Errorf("%q has no namespace: write NAMESPACE/NAME", text)
	case !r.IsNamespaced(), namespace == "", name == "", strings.Contains(name, "/"):
		return client.ObjectKey{}, fmt.Errorf("%q is not the name of an object of rule %s: write NAMESPACE/NAME, or NAME for a kind without namespaces", text, r.Name)
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}
