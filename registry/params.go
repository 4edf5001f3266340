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

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Names of values whose type is not unique. Modules need not type them: they embed Remote.
const (
	ManageClient = "manage-client" // ManageClient is the client for the hub, with live reads.
	ManageCache  = "manage-cache"  // ManageCache reads the hub's shared cache.
	APIReader    = "api-reader"    // APIReader reads the remote without a cache.
	Namespaces   = "namespaces"    // Namespaces are those that the Cluster is limited to.
)

// Remote is all that a remote part may ask for. Embed it into Params, or ask by type (and name); unnamed is the remote's. All
// ends with the epoch: a client that is kept longer returns ErrStopped.
type Remote struct {
	fx.In

	// Status is the remote's when the app was built, without the labels, which change meanwhile: see Labels and Facts.
	Name   ClusterName
	Status Status
	Facts  Facts

	// Manager runs controllers and other runnables. It starts after every invoke of every module has returned.
	Manager   ctrl.Manager
	Client    client.Client
	APIReader client.Reader `name:"api-reader"` // APIReader reads from the remote's API server, without a cache.
	// Cluster is the manager as a cluster.Cluster. WaitForCacheSync of Cache waits until the cache runs; ask an
	// informer itself whether it has synced.
	Cluster cluster.Cluster
	Cache   cache.Cache
	// Config makes clients with the same limits and end. It has a transport: code that dials, such as exec, cannot use it.
	Config     *rest.Config
	Scheme     *runtime.Scheme
	RESTMapper meta.RESTMapper
	// Namespaces are spec.namespaces of the Cluster; the cache has no others. None means all.
	Namespaces []string `name:"namespaces"`

	EventRecorder events.EventRecorder
	Logger        logr.Logger
	Quote         kubeconfig.Quoter     // Quote makes a text of the remote fit for the status of an object that a user owns.
	Metrics       prometheus.Registerer // Metrics adds the label "cluster", and unregisters all collectors when the app ends.

	// HubID is the UID of the hub's kube-system, or empty: modules mark by it which hub an object in a remote is of.
	HubID     string        `name:"hub-id"`
	HubClient client.Client `name:"manage-client"` // HubClient has a rate limit of its own, and reads live.
	// HubCache reads the hub's cache, which all apps share. Reading a kind makes the hub watch it.
	HubCache   client.Reader      `name:"manage-cache"`
	HubObjects *hubobjects.Source // HubObjects are objects of the hub to watch, from informers that all apps share.
	Deletes    deletes.Limiter    // Deletes is for deletes of the module that are no requests to an API server.
}

// Labels returns the present labels of the Cluster, which must not be changed. Changed is a source for their changes.
func (r Remote) Labels() map[string]string { return r.Facts.Labels() }

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
	Namespaces    []string `name:"namespaces"`
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
	Deletes       deletes.Limiter
}
