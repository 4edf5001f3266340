// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry"
)

const (
	// ReasonCopyLeftBehind is the reason of the event of an object that is deleted although its copy may still exist.
	ReasonCopyLeftBehind = "CopyLeftBehind"
	// lookAgain is how often the hub part looks for the Cluster of an object that is being deleted.
	lookAgain = 15 * time.Second
)

// SetUpHub adds a controller for each rule from the hub that is one-to-one: it releases originals that are being deleted and whose
// cluster is gone.
func SetUpHub(_ fx.Lifecycle, p HubParams) error {
	for _, r := range p.Config.Complete() {
		if r.From != rules.FromHub || !r.IsOneToOne() {
			continue
		}
		empty := &metav1.PartialObjectMetadata{}
		empty.SetGroupVersionKind(r.GVK())
		one := &releaser{rule: r, params: p}
		err := registry.ControllerManagedBy(p.Manager).Named("sync-release-"+r.Name).
			For(empty, builder.OnlyMetadata, builder.WithPredicates(predicate.NewPredicateFuncs(one.isHeld))).Complete(one)
		if err != nil {
			return fmt.Errorf("rule %s: %w", r.Name, err)
		}
	}
	return nil
}

// releaser releases the originals of one rule.
type releaser struct {
	rule   rules.Rule
	params HubParams
}

// isHeld reports whether an object is being deleted and waits for its copy.
func (r *releaser) isHeld(obj client.Object) bool {
	return !obj.GetDeletionTimestamp().IsZero() && slices.Contains(obj.GetFinalizers(), r.rule.Finalizer(""))
}

// Reconcile releases one object, if nobody else will.
func (r *releaser) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(r.rule.GVK())
	if err := r.params.APIReader.Get(ctx, req.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	obj.SetGroupVersionKind(r.rule.GVK())
	if !r.isHeld(obj) {
		return reconcile.Result{}, nil
	}
	cluster, ok := r.rule.ClusterOf(obj.Namespace)
	if !ok {
		return reconcile.Result{}, nil
	}
	why, err := r.abandoned(ctx, cluster)
	if err != nil || why == "" {
		return reconcile.Result{RequeueAfter: lookAgain}, err
	}
	r.params.EventRecorder.Eventf(obj, nil, corev1.EventTypeWarning, ReasonCopyLeftBehind, "Release",
		"Released although its copy in the cluster %s may still exist: %s.", cluster, why)
	return reconcile.Result{}, release(ctx, r.params.Client, r.rule, obj, r.rule.Finalizer(cluster))
}

// abandoned returns why the copies in a cluster are given up, or nothing if they are not.
func (r *releaser) abandoned(ctx context.Context, cluster string) (string, error) {
	var c hubv1.Cluster
	err := r.params.APIReader.Get(ctx, client.ObjectKey{Name: cluster}, &c)
	switch {
	case apierrors.IsNotFound(err):
		return "the Cluster does not exist", nil
	case err != nil:
		return "", fmt.Errorf("read the Cluster %s: %w", cluster, err)
	}
	after, ok := r.params.Config.Abandon()
	ready := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReady)
	if ok && ready != nil && ready.Status != metav1.ConditionTrue && time.Since(ready.LastTransitionTime.Time) > after {
		return "the Cluster was not Ready for " + after.String(), nil
	}
	return "", nil
}
