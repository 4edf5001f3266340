// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// What a syncer's author meets of package translate, so that most import one package.
type (
	// Identity distinguishes the objects of one pair in the downstream cluster from all other objects there.
	Identity = translate.Identity
	// Ownership says whose a downstream object is.
	Ownership = translate.Ownership
	// Translator translates the names and the metadata of objects of one kind.
	Translator[T client.Object] = translate.Translator[T]
	// TranslatorOptions change a translator.
	TranslatorOptions = translate.Options
)

// The values of Ownership.
const (
	Foreign = translate.Foreign
	Ours    = translate.Ours
	Stale   = translate.Stale
	Copied  = translate.Copied
)

// NewNamespaced returns a translator of namespaced objects, whose copies share Identity.TargetNamespace. id is the identity
// of the pair; Register refuses another one.
func NewNamespaced[T client.Object](id Identity, o TranslatorOptions) Translator[T] {
	return translate.NewNamespaced[T](id, o)
}

// NewCluster returns a translator of objects without a namespace.
func NewCluster[T client.Object](id Identity, o TranslatorOptions) Translator[T] {
	return translate.NewCluster[T](id, o)
}

// NewMirror returns a translator that keeps the names of objects, and their namespaces unless Identity.TargetNamespace is set.
func NewMirror[T client.Object](id Identity, o TranslatorOptions) Translator[T] {
	return translate.NewMirror[T](id, o)
}
