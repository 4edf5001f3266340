// SPDX-License-Identifier: Apache-2.0

package side

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry"
)

// Side is one cluster of a pair. Make one with InProcess, OfRemote or OfHub.
type Side struct {
	inner inner
	view  View
}

// IsZero reports whether the Side is no cluster.
func (s Side) IsZero() bool { return s.inner == nil }

// Cluster returns the name of the side's Cluster, or nothing.
func (s Side) Cluster() registry.ClusterName {
	if one, ok := s.inner.(*clusterSide); ok {
		return one.name
	}
	return ""
}

// Access returns the access to the cluster.
func (s Side) Access() Access { return s.inner.access() }

// Open begins a watch, while the pair is set up.
func (s Side) Open(w Want) (View, error) {
	if s.view != nil {
		return s.view, nil
	}
	return s.inner.open(w)
}

// With returns the side with a View of it that Open returns, for many pairs with objects of one kind.
func (s Side) With(v View) Side { return Side{s.inner, v} }

// Selects reports whether the views contain obj, which was read live. Only a hub upstream selects.
func (s Side) Selects(obj client.Object) bool {
	hub, ok := s.inner.(*hubSide)
	return !ok || hub.selection.selects(obj)
}

// SeesCopiesOnly reports whether the views of copies have nothing but copies.
func (s Side) SeesCopiesOnly() bool {
	_, hub := s.inner.(*hubSide)
	return hub
}

// Access is the access to one cluster.
type Access struct {
	// Client reads from the cache, except unstructured objects, and the hub's from an app, which are live.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Indexer is for IndexRegisterer; nil for the hub of an app.
	Indexer client.FieldIndexer
	// Config is for further clients; nil for the hub of an app.
	Config *rest.Config
}

type inner interface {
	access() Access
	open(w Want) (View, error)
}

// Want is what a controller watches on a side.
type Want struct {
	Object client.Object // an empty object of the kind
	// Label and Value are, if set, the label of copies: other objects need not be delivered.
	Label, Value string
	// Refused is called when the API server refuses to list or watch, or does not serve the kind; may be nil. It must return at once.
	Refused func()
}

// View is the objects of one kind on one side. Views of the same objects in the hub are equal.
type View interface {
	// Reader reads from memory if the side has the objects there.
	Reader() client.Reader
	// Requests calls observe for each event and requests the keys that it returns, until the context of the source ends.
	Requests(observe Notify) source.TypedSyncingSource[reconcile.Request]
	// Declare returns the context for deletes that follow from an absence that a live read confirms, with evidence if
	// the side has any; see registry/deletes.
	Declare(ctx context.Context, key types.NamespacedName) (context.Context, error)
}

// Notify gets the state of an object, and whether it was seen to be deleted. It returns the upstream objects to
// reconcile.
type Notify func(ctx context.Context, obj client.Object, deleted bool) []types.NamespacedName

// InProcess is a cluster with a cache in this process: a manager, or a cluster.Cluster that one runs.
func InProcess(c cluster.Cluster) Side { return Side{inner: &clusterSide{cluster: c}} }

// OfRemote is the remote of an app.
func OfRemote(p registry.Remote) Side {
	return Side{inner: &clusterSide{cluster: p.Cluster, name: p.Name}}
}

type clusterSide struct {
	cluster cluster.Cluster
	name    registry.ClusterName
}

func (s *clusterSide) access() Access {
	c := s.cluster
	return Access{Client: c.GetClient(), Live: c.GetAPIReader(), Indexer: c.GetFieldIndexer(), Config: c.GetConfig()}
}

func (s *clusterSide) open(w Want) (View, error) {
	return &clusterView{cluster: s.cluster, object: w.Object, seen: lru.New(maxTombstones), refused: w.Refused}, nil
}
