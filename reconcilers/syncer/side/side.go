// SPDX-License-Identifier: Apache-2.0

package side

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry"
)

// Side is one cluster of a pair, as the process of the pair reaches it. Make one with InProcess, OfRemote, OfHub or Leased. The
// zero Side is no cluster.
type Side struct{ inner inner }

// IsZero reports whether the Side is no cluster.
func (s Side) IsZero() bool { return s.inner == nil }

// Cluster returns the name of the Cluster that the Side is, or nothing.
func (s Side) Cluster() registry.ClusterName {
	switch one := s.inner.(type) {
	case *clusterSide:
		return one.name
	case *leasedSide:
		return one.name
	}
	return ""
}

// Lend calls f with access to the cluster. It does not wait for the network, and returns registry.ErrNotReady for a leased remote
// that is not Ready.
func (s Side) Lend(ctx context.Context, f func(ctx context.Context, a Access) error) error {
	return s.inner.lend(ctx, f)
}

// Open begins to watch objects, while the pair is set up.
func (s Side) Open(w Want) (View, error) { return s.inner.open(w) }

// Selects reports whether the views of a hub as the upstream side contain an object that was read from the API server. Those of
// other sides contain all objects.
func (s Side) Selects(obj client.Object) bool {
	hub, ok := s.inner.(*hubSide)
	return !ok || hub.selection.selects(obj)
}

// ReportsDeletions reports whether the views tell an object that was deleted from one that is out of sight. A remote that is leased
// may be away for any time.
func (s Side) ReportsDeletions() bool {
	_, leased := s.inner.(*leasedSide)
	return !leased
}

// SeesCopiesOnly reports whether the views of copies have nothing but copies.
func (s Side) SeesCopiesOnly() bool {
	_, hub := s.inner.(*hubSide)
	return hub
}

// Access is the access to one cluster of a pair, for one call. It must not be kept.
type Access struct {
	// Client writes to the cluster. Its reads come from the cache, except those of unstructured objects, and those of the hub from
	// an app, which are live.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Indexer adds indexes to the cache, for IndexRegisterer. The hub, as an app reaches it, and a leased remote have none:
	// Indexer is nil.
	Indexer client.FieldIndexer
	// Config is the configuration for further clients. The hub, as an app reaches it, has none: Config is nil.
	Config *rest.Config
}

// inner is implemented by each kind of Side.
type inner interface {
	lend(ctx context.Context, f func(ctx context.Context, a Access) error) error
	open(w Want) (View, error)
}

// Want describes the objects that a controller watches on a side.
type Want struct {
	Object client.Object // an empty object of the kind
	// Label and Value, if they are set, are the label of copies: other objects need not be delivered.
	Label, Value string
}

// View is the objects of one kind on one side.
type View interface {
	// Reader reads the objects, from memory if the side has them there.
	Reader(a Access) client.Reader
	// Requests returns a source that calls observe for each event, and requests the keys that observe returns.
	Requests(observe Observer) source.TypedSource[reconcile.Request]
	// Declare returns the context for deletes that follow from the absence of an object, of which no live read has found
	// anything. It adds evidence if the side has any; see registry/deletes.
	Declare(ctx context.Context, key types.NamespacedName) (context.Context, error)
}

// Observer is called with the state of an object, and says whether the object has been seen to be deleted. It returns the
// names of the upstream objects to reconcile.
type Observer func(ctx context.Context, obj client.Object, deleted bool) []types.NamespacedName

// InProcess is a cluster with a cache in this process: a manager, or a cluster.Cluster that a manager runs.
func InProcess(c cluster.Cluster) Side { return Side{&clusterSide{cluster: c}} }

// OfRemote is the remote of an app, in the remote part of a module.
func OfRemote(p registry.Remote) Side { return Side{&clusterSide{cluster: p.Cluster, name: p.Name}} }

// clusterSide is a cluster with a cache, and the name of its Cluster if it has one.
type clusterSide struct {
	cluster cluster.Cluster
	name    registry.ClusterName
}

func (s *clusterSide) lend(ctx context.Context, f func(context.Context, Access) error) error {
	a := accessTo(s.cluster)
	a.Indexer = s.cluster.GetFieldIndexer()
	return f(ctx, a)
}

func accessTo(c cluster.Cluster) Access {
	return Access{Client: c.GetClient(), Live: c.GetAPIReader(), Config: c.GetConfig()}
}

func (s *clusterSide) open(w Want) (View, error) {
	return &clusterView{cluster: s.cluster, object: w.Object, seen: newTombstones()}, nil
}
