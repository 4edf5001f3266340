// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// Preview shows what a Copy of a pair would write, for tools. Its fields are those of the pair; all but Exclude and
// Mutate are required.
type Preview struct {
	// Client is a client of the downstream cluster.
	Client client.Client
	Kind   schema.GroupVersionKind
	// Identity is the identity of the pair.
	Identity Identity
	// Translator is a translator of the identity.
	Translator Translator[*unstructured.Unstructured]
	// Exclude is Options.Exclude. Default: none.
	Exclude []string
	// Mutate is Copy.Mutate. Default: none.
	Mutate func(ctx context.Context, up, copied *unstructured.Unstructured) error
}

// DryRun sends the write of Session.Apply as a dry run, and returns the copy that the API server would store, or its
// error. down is the copy as read, or nil; the error is a conflict if that has changed.
func (p Preview) DryRun(
	ctx context.Context, up, down *unstructured.Unstructured, name types.NamespacedName,
) (*unstructured.Unstructured, error) {
	id, err := p.Identity.WithDefaults()
	if err != nil {
		return nil, err
	}
	translator, err := translate.Bind(p.Translator, id, p.Kind)
	if err != nil {
		return nil, err
	}
	copied := translator.Metadata(up, name)
	if p.Mutate != nil {
		if err := p.Mutate(ctx, up, copied); err != nil {
			return nil, err
		}
	}
	f := form[*unstructured.Unstructured]{translator: translator, keys: id.Keys(), kind: p.Kind, isTyped: p.Client.Scheme().Recognizes(p.Kind), exclude: p.Exclude}
	fields, err := f.fields(up, name, copied)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(fields)}
	u.SetResourceVersion(object.OnlyNew)
	if down != nil {
		u.SetUID(down.GetUID())
		u.SetResourceVersion(down.GetResourceVersion())
	}
	err = p.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner(fieldManagerOf(id, directionDown)), client.ForceOwnership, client.DryRunAll)
	if err != nil {
		return nil, fmt.Errorf("dry run of the write of %s %s: %w", p.Kind.Kind, name, err)
	}
	return u, nil
}
