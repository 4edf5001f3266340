// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Names of the values in an app that share their type with another one. Modules need not type
// them: they embed Remote.
const (
	// ManageClient is the client for the hub, with live reads.
	ManageClient = "manage-client"
	// ManageCache reads the hub's shared cache.
	ManageCache = "manage-cache"
	// APIReader reads the remote without a cache.
	APIReader = "api-reader"
)

// Remote is everything that a remote module may ask for. Embed it into the module's own Params, or ask for single
// values by their type (and name). An unnamed value belongs to the remote; a value that belongs to the hub is named.
//
// All values end with the epoch: a client that is kept longer returns ErrStopped.
type Remote struct {
	fx.In

	// Name is the remote's name. Status is the remote's status when the app was built, without the labels, which change while the app
	// runs: see Labels and Facts.
	Name   ClusterName
	Status Status
	Facts  Facts

	// Manager runs the module's controllers and other runnables. It is not started before every
	// invoke of every module has returned.
	Manager ctrl.Manager
	// Client reads from the app's cache and writes to the remote.
	Client client.Client
	// APIReader reads from the remote's API server, without a cache.
	APIReader client.Reader `name:"api-reader"`
	// Cluster is the manager as a cluster.Cluster, Cache its cache. The cache's
	// WaitForCacheSync waits until the cache runs; ask an informer itself whether it has synced.
	Cluster cluster.Cluster
	Cache   cache.Cache
	// Config makes further clients. Their requests pass the same limits and end with the epoch. It contains a
	// transport, so code that dials by itself, such as exec and port-forward, cannot use it.
	Config     *rest.Config
	Scheme     *runtime.Scheme
	RESTMapper meta.RESTMapper

	// EventRecorder records events in the remote.
	EventRecorder events.EventRecorder
	// Logger carries the names of the cluster and of the module.
	Logger logr.Logger
	// Quote makes a text of the remote fit for the status of an object that a user owns.
	Quote kubeconfig.Quoter
	// Metrics adds the label "cluster" to every collector, and unregisters them when the app
	// ends.
	Metrics prometheus.Registerer

	// HubID identifies the hub: it is the UID of the namespace kube-system of its cluster, and empty in a registry that has
	// none. A module that marks objects in remotes uses it to tell its objects from those of another hub.
	HubID string `name:"hub-id"`
	// HubClient is the client for the hub: it has its own rate limit, and its reads are live.
	HubClient client.Client `name:"manage-client"`
	// HubCache reads from the hub's cache, which all apps share. Reading a kind that the hub
	// does not watch makes the hub watch it.
	HubCache client.Reader `name:"manage-cache"`
	// HubObjects gives the module's controllers objects of the hub to watch, from informers that all apps share.
	HubObjects *hubobjects.Source
}

// Labels returns the labels that the Cluster has now, which must not be changed. Changed is a source of requests for when they do.
func (r Remote) Labels() map[string]string { return r.Facts.Labels() }

// values are the values that an app provides, one for each field of Remote.
type values struct {
	fx.Out

	Name          ClusterName
	ClusterName   string `name:"cluster-name"`
	Status        Status
	Facts         Facts
	Manager       ctrl.Manager
	Client        client.Client
	APIReader     client.Reader `name:"api-reader"`
	Cluster       cluster.Cluster
	Cache         cache.Cache
	Config        *rest.Config
	Scheme        *runtime.Scheme
	RESTMapper    meta.RESTMapper
	EventRecorder events.EventRecorder
	Logger        logr.Logger
	Quote         kubeconfig.Quoter
	Metrics       prometheus.Registerer
	HubID         string        `name:"hub-id"`
	HubClient     client.Client `name:"manage-client"`
	HubCache      client.Reader `name:"manage-cache"`
	HubObjects    *hubobjects.Source
}
