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

// remotes is the part of the registry that the reconciler uses. Remove is all of it that waits.
type remotes interface {
	Ensure(name registry.ClusterName, config registry.Config) error
	Remove(ctx context.Context, name registry.ClusterName) error
	Info(name registry.ClusterName) (registry.Info, bool)
}

// reconciler keeps the registry as the Clusters say, and the Clusters' status as the registry
// says.
//
// +kubebuilder:rbac:groups=clusterfx.dev,resources=clusters,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=clusterfx.dev,resources=clusters/status,verbs=patch
// +kubebuilder:rbac:groups="",namespace=clusterfx-system,resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=clusterfx-system,resources=configmaps,verbs=get;create;update
// +kubebuilder:rbac:groups=events.k8s.io,namespace=clusterfx-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,namespace=default,resources=events,verbs=create;patch
type reconciler struct {
	client.Client               // of the hub; it reads Clusters from the cache
	secrets       client.Reader // reads Secrets from the API server
	remotes       remotes
	suspects      suspects
	events        recorder
	settings      Settings
	memory        memory
	removals      removals
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
		r.clear(ctx, name)
		return ctrl.Result{}, nil
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
	r.removals.forget(cluster.Name) // of an earlier Cluster of that name
	found, err := r.readCredentials(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	runs, err := r.ensure(ctx, cluster, found)
	if err != nil || !runs.current {
		return ctrl.Result{RequeueAfter: found.changesIn(time.Now())}, err
	}
	info := runs.info
	if err := r.recordIdentity(ctx, cluster, info); err != nil {
		return ctrl.Result{}, err
	}
	status := statusOf(cluster, found.unusable(r.secretOf(cluster), info.CredentialError), info)
	if wait := settles(status, info, time.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := r.report(ctx, cluster, status); err != nil {
		return ctrl.Result{}, err
	}
	now := time.Now()
	return ctrl.Result{RequeueAfter: sooner(found.changesIn(now), r.weigh(runs.suspicion, info, now))}, nil
}

// sooner returns the shorter of two times, of which zero stands for never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// remote is what the registry has of a Cluster.
type remote struct {
	info registry.Info
	// current says that info is about what was posted. It may be older, and then an event announces
	// the newer one.
	current   bool
	suspicion registry.Suspicion
}

// ensure posts the desired state and returns what runs. An app is left as it is where there are no
// good credentials, unless it is to be paused, which needs none.
func (r *reconciler) ensure(ctx context.Context, cluster *hubv1.Cluster, found credentials) (remote, error) {
	name := registry.ClusterName(cluster.Name)
	if !found.usable() && !paused(cluster) {
		info, _ := r.remotes.Info(name)
		return remote{info: r.remarkOn(info, registry.Suspicion{}), current: true}, nil
	}
	suspicion, err := r.suspects.suspicion(ctx, cluster.Name, r.attemptOf(cluster, found))
	if err != nil {
		return remote{}, err
	}
	config := configOf(cluster, found, suspicion)
	err = r.remotes.Ensure(name, config)
	if errors.Is(err, registry.ErrClosed) {
		return remote{}, nil // The hub is ending.
	}
	if err != nil {
		return remote{}, fmt.Errorf("post the desired state: %w", err)
	}
	info, _ := r.remotes.Info(name)
	return remote{r.remarkOn(info, suspicion), shows(info, config), suspicion}, nil
}

// remarkOn adds to a snapshot what the registry does not know.
func (r *reconciler) remarkOn(info registry.Info, s registry.Suspicion) registry.Info {
	info.App = describeQuarantine(info.App, s)
	info.Identity = r.markHub(info)
	return info
}
