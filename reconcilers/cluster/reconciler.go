// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
)

// remotes is the part of the registry that the reconciler uses. None of it waits for a remote.
type remotes interface {
	Ensure(name registry.ClusterName, config registry.Config) error
	Stop(ctx context.Context, name registry.ClusterName) error
	Info(name registry.ClusterName) (registry.Info, bool)
}

// reconciler keeps the registry as the Clusters say, and the Clusters' status as the registry
// says.
//
// +kubebuilder:rbac:groups=clusterfx.dev,resources=clusters,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=clusterfx.dev,resources=clusters/status,verbs=patch
// +kubebuilder:rbac:groups="",namespace=clusterfx-system,resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,namespace=clusterfx-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,namespace=default,resources=events,verbs=create;patch
type reconciler struct {
	client.Client               // of the hub; it reads Clusters from the cache
	secrets       client.Reader // reads Secrets from the API server
	remotes       remotes
	events        recorder
	settings      Settings
	memory        memory
}

// Reconcile brings one Cluster and its remote together.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return unlessStale(r.reconcile(ctx, request.Name))
}

func (r *reconciler) reconcile(ctx context.Context, name string) (ctrl.Result, error) {
	var cluster hubv1.Cluster
	err := r.Get(ctx, client.ObjectKey{Name: name}, &cluster)
	switch {
	case apierrors.IsNotFound(err): // Somebody else may have removed our finalizer.
		_, err := r.stop(ctx, name)
		return ctrl.Result{}, err
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read the Cluster: %w", err)
	case !cluster.DeletionTimestamp.IsZero():
		return r.finish(ctx, &cluster)
	case !controllerutil.ContainsFinalizer(&cluster, hubv1.FinalizerCluster):
		return ctrl.Result{}, r.addFinalizer(ctx, &cluster)
	}
	return r.follow(ctx, &cluster)
}

// follow posts what the Cluster and its Secret say, and reports what runs.
func (r *reconciler) follow(ctx context.Context, cluster *hubv1.Cluster) (ctrl.Result, error) {
	found, err := r.readCredentials(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	info, current, err := r.ensure(cluster, found)
	if err != nil || !current {
		return ctrl.Result{}, err
	}
	if err := r.recordIdentity(ctx, cluster, info); err != nil {
		return ctrl.Result{}, err
	}
	status := statusOf(cluster, found, info)
	if wait := settles(status, info, time.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := r.report(ctx, cluster, status); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: found.changesIn(time.Now())}, nil
}

// ensure posts the desired state and returns a snapshot of the remote, and whether it is one to
// report: it may be older than what was posted, and then an event announces the newer one. An app
// is left as it is where there are no good credentials, unless it is to be paused, which needs
// none.
func (r *reconciler) ensure(cluster *hubv1.Cluster, found credentials) (registry.Info, bool, error) {
	name := registry.ClusterName(cluster.Name)
	if !found.usable() && !paused(cluster) {
		info, _ := r.remotes.Info(name)
		return info, true, nil
	}
	config := configOf(cluster, found)
	err := r.remotes.Ensure(name, config)
	if errors.Is(err, registry.ErrClosed) {
		return registry.Info{}, false, nil // The hub is ending.
	}
	if err != nil {
		return registry.Info{}, false, fmt.Errorf("post the desired state: %w", err)
	}
	info, _ := r.remotes.Info(name)
	return info, shows(info, config), nil
}
