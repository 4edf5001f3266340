// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/reconcilers/syncer/side"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
	"github.com/clusterfx/clusterfx/registry"
)

// What an author needs of the packages side and translate.
type (
	// Side is one cluster of a pair.
	Side = side.Side
	// Access is the access to one cluster.
	Access = side.Access
	// HubSelection selects the hub's objects for an upstream side.
	HubSelection = side.HubSelection
	// Identity distinguishes the objects of one pair in the downstream cluster.
	Identity = translate.Identity
	// Ownership says whose a downstream object is.
	Ownership = translate.Ownership
	// Translator translates names and metadata of one kind.
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

// InProcess is a cluster with a cache in this process: a manager, or a cluster.Cluster that one runs.
func InProcess(c cluster.Cluster) Side { return side.InProcess(c) }

// OfRemote is the remote of an app.
func OfRemote(p registry.Remote) Side { return side.OfRemote(p) }

// OfHub is the hub as an app reaches it. Upstream it has the selected objects; downstream the pair's copies, without
// the selection. The module must declare HubRules: get, list and watch for the kinds; downstream also create, patch
// and delete.
func OfHub(p registry.Remote, s HubSelection) Side { return side.OfHub(p, s) }

// NewNamespaced translates namespaced objects; copies share Identity.TargetNamespace. id must be the pair's.
func NewNamespaced[T client.Object](id Identity, o TranslatorOptions) Translator[T] {
	return translate.NewNamespaced[T](id, o)
}

// NewCluster translates objects without a namespace.
func NewCluster[T client.Object](id Identity, o TranslatorOptions) Translator[T] {
	return translate.NewCluster[T](id, o)
}

// NewMirror keeps names, and namespaces unless Identity.TargetNamespace is set.
func NewMirror[T client.Object](id Identity, o TranslatorOptions) Translator[T] {
	return translate.NewMirror[T](id, o)
}
