// SPDX-License-Identifier: Apache-2.0

package crdsync

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// objects copies the objects of a kind.
type objects struct {
	syncer.Copy[*unstructured.Unstructured]
	kind schema.GroupVersionKind
}

// Item copies the custom resources of a kind downstream, without their status.
func Item(id syncer.Identity, kind schema.GroupVersionKind) syncer.Item {
	return syncer.Of(
		&objects{Copy: syncer.Copy[*unstructured.Unstructured]{Called: "custom-resources"}, kind: kind},
		syncer.NewNamespaced[*unstructured.Unstructured](id, syncer.TranslatorOptions{}),
		syncer.Options[*unstructured.Unstructured]{Kind: kind},
	)
}

// Init makes the downstream cluster serve the kind.
func (o *objects) Init(ctx context.Context, p *syncer.Pair) error {
	return syncer.EnsureCRD(ctx, p, o.kind)
}
