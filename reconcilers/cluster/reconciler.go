// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

type remotes interface {
	ender
	AdmitRemoval(ctx context.Context, one registry.Removal) error
	AllowDeletes(ctx context.Context, name registry.ClusterName, value string) error
	Ensure(name registry.ClusterName, config state.Desired) error
	Relabel(name registry.ClusterName, labels, annotations map[string]string) error
}

// reconciler posts the desired state of Clusters to the registry, and reports the registry's snapshots in the status of
// the Clusters.
type reconciler struct {
	client.Client               // of the hub; it reads Clusters from the cache
	cache         client.Reader // has metadata of Secrets
	secrets       client.Reader // reads Secrets from the API server
	remotes       remotes
	place         evidence.Place // the hub
	share         Share
	tunnels       Tunnels // nil without tunnels
	suspects      suspects
	events        hubcontroller.Recorder
	tracer        trace.Tracer
	settings      Settings
	memory        memory
	removals      removals
	opening       sync.Mutex // held while the cached Clusters are noted
	isOpen        bool
	rivals        *rivals // nil: this hub has all Clusters, or duplicates are allowed

	hasToldMissing atomic.Bool // fields of the CRD
}

// Reconcile posts the desired state of a Cluster and reports the state of its remote. The text of an error is in the log only, under
// the reconcileID of the span.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	ctx, span := r.tracer.Start(ctx, "reconcile", trace.WithAttributes(
		attribute.String("cluster", request.Name), attribute.String("controller", "cluster"),
		attribute.String("reconcileID", string(controller.ReconcileIDFromContext(ctx))),
	))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "error")
		}
		span.End()
	}()
	return hubcontroller.RetryIfStale(r.reconcile(ctx, request.Name))
}

func (r *reconciler) reconcile(ctx context.Context, name string) (ctrl.Result, error) {
	if err := r.open(ctx); err != nil {
		return ctrl.Result{}, err
	}
	s := r.memory.of(name)
	defer r.memory.looked(s)
	var cached hubv1.Cluster
	err := r.Get(ctx, client.ObjectKey{Name: name}, &cached)
	switch {
	case apierrors.IsNotFound(err):
		r.share.Forget(registry.ClusterName(name))
		r.clear(ctx, name)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read the Cluster: %w", err)
	}
	cluster := s.latest(&cached)
	if runs, result, err := r.actAs(ctx, cluster); !runs {
		return result, err
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return r.finish(ctx, cluster)
	}
	r.memory.use(s, cluster.Spec.KubeconfigSecretRef.Name)
	info, isClear := r.isClear(ctx, cluster)
	if !isClear {
		return ctrl.Result{}, nil // The end of the removal triggers the next reconcile.
	}
	if !hasFinalizer(cluster) && !identifiesFirst(cluster, info) {
		if err := r.record(ctx, cluster, ""); err != nil {
			return ctrl.Result{}, err
		}
	}
	if r.memory.mustWait(cluster) {
		return ctrl.Result{RequeueAfter: orderRetry}, nil
	}
	return r.follow(ctx, cluster, info)
}

// open notes the Clusters that there are, once, before the first reconcile.
func (r *reconciler) open(ctx context.Context) error {
	r.opening.Lock()
	defer r.opening.Unlock()
	if r.isOpen {
		return nil
	}
	all, err := r.cachedClusters(ctx)
	if err != nil {
		return fmt.Errorf("list the Clusters: %w", err)
	}
	r.memory.begin(all, time.Now())
	r.isOpen = true
	return nil
}

// orderRetry is how soon a new Cluster is reconciled again while known Clusters are still pending.
const orderRetry = 50 * time.Millisecond

// cachedClusters must not be changed.
func (r *reconciler) cachedClusters(ctx context.Context) ([]hubv1.Cluster, error) {
	var all hubv1.ClusterList
	err := r.List(ctx, &all, client.UnsafeDisableDeepCopy)
	return all.Items, err
}

// follow posts the desired state and reports the remote's. last is the snapshot from before that.
func (r *reconciler) follow(ctx context.Context, cluster *hubv1.Cluster, last registry.Status) (ctrl.Result, error) {
	// Ensure needs usable credentials and the Secret; an annotation for observe mode must not wait for them.
	err := r.remotes.Relabel(registry.ClusterName(cluster.Name), cluster.Labels, cluster.Annotations)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return ctrl.Result{}, fmt.Errorf("post the labels: %w", err)
	}
	if err := r.remotes.AllowDeletes(ctx, registry.ClusterName(cluster.Name), cluster.Annotations[hubv1.AnnotationAllowDeletes]); err != nil {
		log.FromContext(ctx).Error(err, "Failed to allow held deletes")
	}
	found, err := r.readCredentials(ctx, cluster, last)
	if err != nil {
		return ctrl.Result{}, err
	}
	runs, err := r.ensure(ctx, cluster, found, RoleRunner)
	if err != nil || !runs.current {
		return ctrl.Result{RequeueAfter: found.changesIn(time.Now())}, err
	}
	recorded, err := r.recordContact(ctx, cluster, runs.info)
	if err != nil {
		return ctrl.Result{}, err
	}
	if recorded {
		if runs, err = r.ensure(ctx, cluster, found, RoleRunner); err != nil || !runs.current {
			return ctrl.Result{RequeueAfter: found.changesIn(time.Now())}, err
		}
	}
	inUse, info := runs.inUse(found, cluster, r.secretOf(cluster))
	info.Identity = recordedIdentity(cluster, info)
	status := r.statusOf(cluster, inUse.Credentials, info)
	again, err := r.reportAsRunner(ctx, cluster, status, info)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := time.Now()
	proven, err := r.weigh(ctx, cluster, runs, now)
	return ctrl.Result{RequeueAfter: sooner(sooner(again, proven), found.changesIn(now))}, err
}

type remote struct {
	info registry.Status
	// current: info is about the posted state. Otherwise it is older, and an event announces a newer one.
	current   bool
	suspicion state.CrashRecord
}

// ensure posts an app that works or is kept warm. Without usable credentials the app stays, unless to be paused.
func (r *reconciler) ensure(ctx context.Context, cluster *hubv1.Cluster, found credentials, role Role) (remote, error) {
	name := registry.ClusterName(cluster.Name)
	if !found.Usable() && !clusterstatus.IsPaused(cluster) {
		info, _ := r.remotes.Status(name)
		return remote{info: r.remarkOn(info, cluster), current: true}, nil
	}
	suspicion, err := r.crashRecordOf(ctx, cluster, role)
	if err != nil {
		return remote{}, err
	}
	config := configOf(cluster, found, suspicion)
	info, _ := r.remotes.Status(name)
	rival, isKnown, err := r.rivals.of(ctx, cluster, info)
	switch {
	case err != nil:
		return remote{}, fmt.Errorf("look for older Clusters of the same cluster: %w", err)
	case rival != "":
		config.Identity.Rival, config.Revision = rival, config.Revision+"/rival="+string(rival)
	}
	switch {
	case role == RoleWarm:
		config.Warm, config.Revision = true, config.Revision+"/warm"
	case !hasFinalizer(cluster), !isKnown: // The app waits until the hub has recorded which cluster it is.
		config.IdentifyOnly, config.Revision = true, config.Revision+"/identify"
	}
	if s := r.memory.of(cluster.Name); !s.hasPosted(config, info) {
		err := r.remotes.Ensure(name, config)
		if errors.Is(err, registry.ErrClosed) {
			return remote{}, nil // The hub is ending.
		}
		if err != nil {
			return remote{}, fmt.Errorf("post the desired state: %w", err)
		}
		s.notePosted(config)
		info, _ = r.remotes.Status(name)
	}
	return remote{r.remarkOn(info, cluster), info.Revision == config.Revision, suspicion}, nil
}

// inUse returns the last good ones while a new server does not respond, or the remote does not accept new credentials, yet.
func (has remote) inUse(found credentials, cluster *hubv1.Cluster, secret client.ObjectKey) (credentials, registry.Status) {
	info := has.info
	if !found.Usable() {
		return found, info
	}
	wanted := found.Reported.Fingerprint
	if info.CredentialName != "" && info.CredentialName != wanted || info.NewServer != (state.Condition{}) {
		found.Reported = cluster.Status.Credentials
	}
	switch {
	case info.NewServer != (state.Condition{}):
		info.Reachable = info.NewServer
	case info.NewCredential != (state.Condition{}):
		found.Valid = info.NewCredential
		why := clusterstatus.WithAdvice(info.NewCredential.Message, info.NewCredential.Problem)
		found.Valid.Message, found.Valid.Problem = fmt.Sprintf(messageNotInUse, secret, why, wanted), state.Problem{}
	}
	return found, info
}

func (r *reconciler) remarkOn(info registry.Status, cluster *hubv1.Cluster) registry.Status {
	info.App = describeQuarantine(info.App, cluster)
	info.Identity = r.markHub(info)
	return info
}
