// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry"
)

// ruleManager is the field manager of conditions, sums and finalizers.
const ruleManager = client.FieldOwner("clusterfx-sync-rules")

// SetUpHub adds the controller of SyncRules.
func SetUpHub(p registry.HubPart) error {
	known, err := newBook(p.Options.ModuleConfigs)
	if err != nil {
		return err
	}
	r := &ruleReconciler{
		releasers: &releasers{book: known, params: p, rules: &rules.Compiler{}, kinds: map[schema.GroupVersionKind]bool{}}, metrics: newRuleMetrics(),
	}
	for _, one := range r.metrics.all() {
		if err := p.Metrics.Register(one); err != nil {
			return fmt.Errorf("register the metrics of rules: %w", err)
		}
	}
	all := func(ctx context.Context, _ client.Object) []ctrl.Request { return allRules(ctx, p.Client, p.Logger) }
	return registry.ControllerManagedBy(p.Manager).Named("sync-rules").For(&hubv1.SyncRule{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: ruleWorkers}). // A new rule waits for no report of others.
		Watches(&hubv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(all), builder.WithPredicates(ofInterest())).Complete(r)
}

// ofInterest drops changes of Clusters that no rule depends on.
func ofInterest() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, wasCluster := e.ObjectOld.(*hubv1.Cluster)
		after, isCluster := e.ObjectNew.(*hubv1.Cluster)
		isReachable := func(c *hubv1.Cluster) bool {
			return meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionReachable)
		}
		return !wasCluster || !isCluster || !maps.Equal(before.Labels, after.Labels) || !slices.Equal(before.Spec.Modules, after.Spec.Modules) ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() || isReachable(before) != isReachable(after) ||
			before.Status.Runner.Name != after.Status.Runner.Name
	}}
}

type ruleReconciler struct {
	*releasers

	metrics *ruleMetrics
}

func (r *ruleReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	rule := &hubv1.SyncRule{}
	if err := r.params.Client.Get(ctx, req.NamespacedName, rule); err != nil {
		if err = client.IgnoreNotFound(err); err == nil {
			r.metrics.forget(req.Name)
			r.rules.Forget(req.Name)
		}
		return ctrl.Result{}, err
	}
	compiled, invalid := r.rules.Compile(rule)
	isEnding := !rule.DeletionTimestamp.IsZero()
	if isEnding && !controllerutil.ContainsFinalizer(rule, hubv1.FinalizerSyncRule) {
		return ctrl.Result{}, nil
	}
	// Apps work for a rule once it has the finalizer, and the namespaces of the hub that it works in.
	if !isEnding && invalid == nil && (!controllerutil.ContainsFinalizer(rule, hubv1.FinalizerSyncRule) || !compiled.IsRecorded()) {
		return ctrl.Result{}, r.change(ctx, rule, func(rule *hubv1.SyncRule) {
			controllerutil.AddFinalizer(rule, hubv1.FinalizerSyncRule)
			if !compiled.IsRecorded() {
				metav1.SetMetaDataAnnotation(&rule.ObjectMeta, hubv1.AnnotationHubNamespaces, compiled.Recorded())
			}
		})
	}
	s, err := r.standing(ctx, rule, compiled, invalid)
	if err != nil {
		return ctrl.Result{}, err
	}
	var later time.Duration
	if invalid == nil && compiled.HasFinalizers() {
		if err := r.ensure(compiled.GVK()); err != nil {
			r.params.Logger.V(1).Info("Failed to watch the originals of a rule for their end", "rule", rule.Name, "error", err.Error())
			later = lookAgain
		}
	}
	if err := r.report(ctx, s); err != nil || !isEnding {
		return ctrl.Result{RequeueAfter: later}, err
	}
	return r.end(ctx, compiled, s)
}

func (r *ruleReconciler) standing(ctx context.Context, rule *hubv1.SyncRule, compiled rules.Rule, invalid error) (*standing, error) {
	var clusters hubv1.ClusterList
	if err := r.params.Client.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the Clusters: %w", err)
	}
	live := map[string]bool{r.params.Options.Replica: true}
	s := &standing{rule: rule, invalid: invalid}
	if invalid == nil && !compiled.IsTerminating {
		s.invalid = r.book.config.Allow.Check(compiled)
	}
	for i := range clusters.Items {
		c := &clusters.Items[i]
		live[c.Status.Runner.Name] = true
		if invalid == nil && c.DeletionTimestamp.IsZero() && r.book.runs(c) && compiled.SelectsCluster(c.Labels) {
			s.selected = append(s.selected, c)
		}
	}
	for _, one := range rule.Status.Replicas {
		if live[one.Name] {
			s.replicas = append(s.replicas, one)
		}
	}
	s.sum()
	return s, nil
}

// report writes what has changed. The lock is for entries of replicas that have ended: those of the others are not this manager's.
func (r *ruleReconciler) report(ctx context.Context, s *standing) error {
	before := s.rule
	s.rule = before.DeepCopy()
	s.rule.Status.Replicas = s.replicas
	s.status()
	r.metrics.set(s)
	if equality.Semantic.DeepEqual(before.Status, s.rule.Status) {
		return nil
	}
	patch := client.MergeFrom(before)
	if len(before.Status.Replicas) != len(s.replicas) {
		patch = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	}
	written := s.rule.DeepCopy()
	err := r.params.Client.Status().Patch(ctx, written, patch, ruleManager)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("report the rule %s: %w", before.Name, err)
	}
	return nil
}

func removeFinalizer(rule *hubv1.SyncRule) {
	controllerutil.RemoveFinalizer(rule, hubv1.FinalizerSyncRule)
}

func (r *ruleReconciler) change(ctx context.Context, rule *hubv1.SyncRule, change func(*hubv1.SyncRule)) error {
	changed := rule.DeepCopy()
	change(changed)
	err := patchMetadata(ctx, client.WithFieldOwner(r.params.Client, string(ruleManager)), rule, changed)
	if apierrors.IsConflict(err) {
		return nil // The change that was not known requests the rule again.
	}
	return err
}
