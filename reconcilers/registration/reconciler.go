// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

type reconciler struct {
	client.Client               // of the hub
	cache         client.Reader // has metadata of Secrets
	live          client.Reader // the API server
	place         evidence.Place
	admit         func(context.Context, registry.Removal) error
	events        hubcontroller.Recorder
	settings      Settings
	requests      hubcontroller.Index // the Cluster that a Secret asks for
}

const (
	eventNotAdopted     = "NotAdopted"
	eventNotRegistered  = "NotRegistered"
	eventLabelsRefused  = "LabelsRefused"
	eventSecretMissing  = "SecretMissing"
	eventSecretReturned = "SecretReturned"
	eventOtherNamespace = "OtherNamespace"
	eventRemovalHeld    = "RemovalHeld"

	noteNotAdopted = "Cluster %s exists and was not made from this Secret, so the hub does not change it; " +
		"delete it, remove the label " + hubv1.LabelCluster + ", or choose another name with the annotation " +
		hubv1.AnnotationClusterName
	noteSecretMissing  = "Secret %s is gone or no longer asks for this Cluster; the Cluster will be deleted in %s unless it does again"
	noteOtherNamespace = "Cluster was made from Secret %s of the namespace %s, which is not the credentials namespace of this hub, so the hub " +
		"does not delete it: start the hub with --credentials-namespace=%[2]s, or delete the Cluster"
	noteNamespaceGone  = "Secret %s is gone with its namespace, so the hub does not delete the Cluster: %v"
	noteSecretReturned = "Secret %s asks for this Cluster again, so it stays"
)

// adoptionRetry repeats the event about a Secret whose Cluster has another owner: events expire. A change of that
// Cluster comes sooner.
const adoptionRetry = 10 * time.Minute

func (m *reconciler) Reconcile(ctx context.Context, request registration) (ctrl.Result, error) {
	return hubcontroller.RetryIfStale(m.reconcile(ctx, request))
}

func (m *reconciler) reconcile(ctx context.Context, request registration) (ctrl.Result, error) {
	secret, err := m.secret(ctx, m.cache, request.Secret)
	if err != nil {
		return ctrl.Result{}, err
	}
	wanted := wantedName(secret) == request.Cluster
	m.requests.Set(request.Secret, wantedName(secret))
	cluster, err := m.cluster(ctx, request.Cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	made := madeFrom(cluster, request.Secret)
	isOurs := made && cluster.Annotations[hubv1.AnnotationSecretNamespace] == m.settings.Namespace
	switch {
	case cluster != nil && !cluster.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil // Its deletion event triggers the next reconcile.
	case wanted && cluster == nil:
		return m.create(ctx, request, secret)
	case wanted && isOurs:
		return ctrl.Result{}, m.follow(ctx, cluster, secret)
	case wanted:
		m.warn(secret, eventNotAdopted, fmt.Sprintf(noteNotAdopted, request.Cluster))
		return ctrl.Result{RequeueAfter: adoptionRetry}, nil
	case made && !isOurs:
		m.warn(cluster, eventOtherNamespace, fmt.Sprintf(noteOtherNamespace, request.Secret, cluster.Annotations[hubv1.AnnotationSecretNamespace]))
		return ctrl.Result{RequeueAfter: adoptionRetry}, nil
	case made:
		return m.deregister(ctx, request, cluster)
	}
	return ctrl.Result{}, nil
}

func (m *reconciler) secret(ctx context.Context, from client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	secret := hubcontroller.SecretMetadata()
	err := from.Get(ctx, client.ObjectKey{Namespace: m.settings.Namespace, Name: name}, secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return secret, nil
}

func (m *reconciler) cluster(ctx context.Context, name string) (*hubv1.Cluster, error) {
	cluster := &hubv1.Cluster{}
	err := m.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Cluster %s: %w", name, err)
	}
	return cluster, nil
}

// create: if the API server rejects the Cluster, the Secret must change first. The Cluster has the finalizer from the
// beginning: otherwise its controller would add it with another write before the start.
func (m *reconciler) create(ctx context.Context, request registration, secret *metav1.PartialObjectMetadata) (ctrl.Result, error) {
	cluster := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: request.Cluster}}
	controllerutil.AddFinalizer(cluster, hubv1.FinalizerCluster)
	refused, err := stamp(cluster, secret)
	if err == nil {
		err = m.Create(ctx, cluster, client.FieldOwner(hubcontroller.FieldManager))
	}
	switch {
	case apierrors.IsAlreadyExists(err): // The cache is stale.
		return ctrl.Result{RequeueAfter: hubcontroller.StaleRetry}, nil
	case apierrors.IsInvalid(err), errors.Is(err, errLabels):
		m.warn(secret, eventNotRegistered, err.Error())
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("create Cluster %s: %w", request.Cluster, err)
	}
	m.tellRefused(secret, cluster, refused)
	return ctrl.Result{}, nil
}

func (m *reconciler) follow(ctx context.Context, cluster *hubv1.Cluster, secret *metav1.PartialObjectMetadata) error {
	before := cluster.DeepCopy()
	refused, err := stamp(cluster, secret)
	if err != nil {
		m.warn(secret, eventLabelsRefused, fmt.Sprintf("Cluster %s keeps its labels: %v", cluster.Name, err))
	}
	m.tellRefused(secret, cluster, refused)
	if equality.Semantic.DeepEqual(before, cluster) {
		return nil
	}
	if err := hubcontroller.Patch(ctx, m.Client, before, cluster); err != nil {
		return fmt.Errorf("update Cluster %s: %w", cluster.Name, err)
	}
	if _, missing := missingSince(before); missing {
		note := fmt.Sprintf(noteSecretReturned, secret.Name)
		m.events.Record(cluster, hubcontroller.Normal(eventSecretReturned, "", note))
	}
	return nil
}

// deregister waits for Settings.DeregisterAfter since the Secret was first seen not to ask for the Cluster.
func (m *reconciler) deregister(ctx context.Context, request registration, cluster *hubv1.Cluster) (ctrl.Result, error) {
	since, noted := missingSince(cluster)
	if !noted {
		return m.noteMissing(ctx, request, cluster)
	}
	if left := m.settings.DeregisterAfter - time.Since(since); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	// A stale cache may lack a Secret, so read it from the API server before the deletion.
	secret, err := m.secret(ctx, m.live, request.Secret)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wantedName(secret) == request.Cluster {
		return ctrl.Result{RequeueAfter: hubcontroller.StaleRetry}, nil
	}
	if mayDelete, err := m.mayDelete(ctx, request, cluster); !mayDelete {
		return ctrl.Result{RequeueAfter: heldRetry}, err
	}
	err = m.Delete(ctx, cluster, client.Preconditions{UID: &cluster.UID, ResourceVersion: &cluster.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("delete Cluster %s: %w", request.Cluster, err)
	}
	return ctrl.Result{}, nil
}

const heldRetry = 30 * time.Second // heldRetry is for a deletion that is held, or a Secret that went with its namespace.

// mayDelete: the Secret went by itself, and the limit of removals admits another. The Secret's age is not known, so a
// Namespace that was made again counts as its own.
func (m *reconciler) mayDelete(ctx context.Context, request registration, cluster *hubv1.Cluster) (bool, error) {
	secret := hubcontroller.SecretMetadata()
	secret.Name, secret.Namespace, secret.CreationTimestamp = request.Secret, m.settings.Namespace, metav1.Now()
	err := m.place.OnPurpose(ctx, secret.GroupVersionKind(), secret)
	if errors.Is(err, evidence.ErrNone) {
		m.warn(cluster, eventSecretMissing, fmt.Sprintf(noteNamespaceGone, request.Secret, err))
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("judge the deletion of Secret %s: %w", request.Secret, err)
	}
	var all hubv1.ClusterList
	if err := m.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("count the Clusters: %w", err)
	}
	err = m.admit(ctx, registry.Removal{Name: cluster.Name, UID: cluster.UID, Fleet: len(all.Items)})
	if deletes.IsHeld(err) {
		m.warn(cluster, eventRemovalHeld, err.Error())
		return false, nil
	}
	return err == nil, err
}

func (m *reconciler) noteMissing(ctx context.Context, request registration, cluster *hubv1.Cluster) (ctrl.Result, error) {
	before := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, hubv1.AnnotationSecretMissingSince, time.Now().UTC().Format(time.RFC3339))
	if err := hubcontroller.Patch(ctx, m.Client, before, cluster); err != nil {
		return ctrl.Result{}, fmt.Errorf("note that the Secret of Cluster %s is missing: %w", request.Cluster, err)
	}
	m.warn(cluster, eventSecretMissing, fmt.Sprintf(noteSecretMissing, request.Secret, m.settings.DeregisterAfter))
	return ctrl.Result{RequeueAfter: m.settings.DeregisterAfter}, nil
}

func (m *reconciler) tellRefused(secret *metav1.PartialObjectMetadata, cluster *hubv1.Cluster, refused refusedLabels) {
	if note := refused.note(cluster.Name); note != "" {
		m.warn(secret, eventLabelsRefused, note)
	}
}

func (m *reconciler) warn(about client.Object, reason, note string) {
	m.events.Record(about, hubcontroller.Warning(reason, "", note))
}
