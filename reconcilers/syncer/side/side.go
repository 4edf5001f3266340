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

// Side is one cluster of a pair. Make one with InProcess, OfRemote or OfHub, or with Live for a Syncer that is only opened.
type Side struct {
	name   registry.ClusterName
	access func() Access
	open   func(Want) (View, error)
	hub    *HubSelection // nil for other clusters
}

// IsZero reports whether the Side is no cluster.
func (s Side) IsZero() bool { return s.open == nil }

// Cluster returns the name of the side's Cluster, or nothing.
func (s Side) Cluster() registry.ClusterName { return s.name }

// Access returns the access to the cluster.
func (s Side) Access() Access { return s.access() }

// Open begins a watch, while the pair is set up.
func (s Side) Open(w Want) (View, error) { return s.open(w) }

// With returns the side with a View of it that Open returns, for many pairs with objects of one kind.
func (s Side) With(v View) Side {
	s.open = func(Want) (View, error) { return v, nil }
	return s
}

// Selects reports whether the views contain obj, which was read live. Only a hub upstream selects.
func (s Side) Selects(obj client.Object) bool { return s.hub == nil || s.hub.selects(obj) }

// SeesCopiesOnly reports whether the views of copies have nothing but copies.
func (s Side) SeesCopiesOnly() bool { return s.hub != nil }

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
func InProcess(c cluster.Cluster) Side {
	return Side{
		access: func() Access {
			return Access{Client: c.GetClient(), Live: c.GetAPIReader(), Indexer: c.GetFieldIndexer(), Config: c.GetConfig()}
		},
		open: func(w Want) (View, error) {
			return &clusterView{cluster: c, object: w.Object, seen: lru.New(maxTombstones), refused: w.Refused}, nil
		},
	}
}

// OfRemote is the remote of an app.
func OfRemote(p registry.Remote) Side {
	s := InProcess(p.Cluster)
	s.name = p.Name
	return s
}

// Live is a cluster that a client reads without a cache, for tools that reconcile once: its views have no events.
func Live(c client.Client) Side {
	return Side{
		access: func() Access { return Access{Client: c, Live: c} },
		open:   func(Want) (View, error) { return liveView{c}, nil },
	}
}

type liveView struct{ live client.Reader }

func (v liveView) Reader() client.Reader { return v.live }

func (liveView) Requests(Notify) source.TypedSyncingSource[reconcile.Request] { return nil }

func (liveView) Declare(ctx context.Context, _ types.NamespacedName) (context.Context, error) {
	return ctx, nil
}
