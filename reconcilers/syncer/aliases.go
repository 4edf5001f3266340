// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/reconcilers/syncer/side"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
	"github.com/clusterfx/clusterfx/registry"
)

// What a syncer's author meets of the packages side and translate, so that most import one package.
type (
	// Side is one cluster of a pair, as the process of the pair reaches it.
	Side = side.Side
	// Access is the access to one cluster of a pair, for one call. It must not be kept.
	Access = side.Access
	// HubSelection selects the objects of the hub that a pair with the hub as its upstream side sees.
	HubSelection = side.HubSelection
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

// InProcess is a cluster with a cache in this process: a manager, or a cluster.Cluster that a manager runs.
func InProcess(c cluster.Cluster) Side { return side.InProcess(c) }

// OfRemote is the remote of an app, in the remote part of a module.
func OfRemote(p registry.Remote) Side { return side.OfRemote(p) }

// OfHub is the hub, in the remote part of a module. As the upstream side it has the selected objects; as the downstream side it
// has the copies of the pair, and the selection is not used. The module declares the permissions in its HubRules: get, list
// and watch for the kinds, and for a downstream side also create, patch and delete.
func OfHub(p registry.Remote, s HubSelection) Side { return side.OfHub(p, s) }

// Leased is a remote of a registry, in the hub part of a module. The pair borrows its client for each reconcile. While the
// remote is not Ready, the reconciles of the pair wait.
func Leased(r *registry.Registry, name registry.ClusterName) Side { return side.Leased(r, name) }

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
