// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	lookAgain       = 15 * time.Second
	unselectedAfter = time.Minute // what a remote's pair has for a deleted object that is no longer selected
)

// SetUpHub adds a controller for each kind with one-to-one rules from the hub. It releases deleted originals whose
// copy no pair will delete.
func SetUpHub(p HubParams) error {
	all, err := newBook(p.Config, p.Options.ModuleConfigs)
	if err != nil {
		return err
	}
	byKind := map[schema.GroupVersionKind][]rules.Rule{}
	for _, r := range all.holding() {
		byKind[r.GVK()] = append(byKind[r.GVK()], r)
	}
	for kind, of := range byKind {
		one := &releaser{kind: kind, rules: of, book: all, params: p}
		if rules.IsServedByKubernetes(kind.Group) {
			err = one.add()
		} else {
			err = p.Manager.Add(one)
		}
		if err != nil {
			return fmt.Errorf("kind %s: %w", kind.Kind, err)
		}
	}
	return nil
}

type releaser struct {
	kind   schema.GroupVersionKind
	rules  []rules.Rule
	book   book
	params HubParams
}

func (r *releaser) Start(ctx context.Context) error {
	ticker := time.NewTicker(kindAgain)
	defer ticker.Stop()
	for {
		_, err := r.params.RESTMapper.RESTMapping(r.kind.GroupKind(), r.kind.Version)
		if err == nil {
			break
		}
		if !meta.IsNoMatchError(err) {
			r.params.Logger.V(1).Info("Failed to find a kind", "kind", r.kind.Kind, "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	if err := r.add(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (r *releaser) add() error {
	name := strings.ReplaceAll("sync-release-"+strings.ToLower(r.kind.GroupKind().String()), ".", "-")
	return registry.ControllerManagedBy(r.params.Manager).Named(name).
		For(r.empty(), builder.OnlyMetadata, builder.WithPredicates(predicate.NewPredicateFuncs(isHeld))).Complete(r)
}

func (r *releaser) empty() *metav1.PartialObjectMetadata {
	empty := &metav1.PartialObjectMetadata{}
	empty.SetGroupVersionKind(r.kind)
	return empty
}

func isHeld(obj client.Object) bool {
	return !obj.GetDeletionTimestamp().IsZero() && len(held(obj)) > 0
}

func held(obj client.Object) []string {
	return slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(finalizer string) bool {
		_, ok := rules.RuleOfFinalizer(finalizer)
		return !ok
	})
}

func (r *releaser) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := r.empty()
	if err := r.params.APIReader.Get(ctx, req.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	obj.SetGroupVersionKind(r.kind)
	if !isHeld(obj) {
		return reconcile.Result{}, nil
	}
	for _, finalizer := range held(obj) {
		name, _ := rules.RuleOfFinalizer(finalizer)
		why, err := r.abandoned(ctx, obj, finalizer)
		if err != nil {
			return reconcile.Result{}, err
		}
		if why == "" {
			continue
		}
		if err := release(ctx, r.params.Client, obj, finalizer); err != nil {
			return reconcile.Result{}, err
		}
		r.params.EventRecorder.Eventf(obj, nil, corev1.EventTypeWarning, rules.ReasonCopyLeftBehind, "Release", "%s", left(name, obj, why))
		return reconcile.Result{}, nil // One at a time: the object has changed, and its watch requests it again.
	}
	return reconcile.Result{RequeueAfter: lookAgain}, nil
}

// abandoned says why the copy is given up; empty if it is not.
func (r *releaser) abandoned(ctx context.Context, obj *metav1.PartialObjectMetadata, finalizer string) (string, error) {
	name, _ := rules.RuleOfFinalizer(finalizer)
	if finalizer != (rules.Rule{Name: name, From: rules.FromHub}).Finalizer(rules.Place{HubID: r.params.Options.HubID}) {
		return "another hub has made it, as before this one was restored into a new cluster", nil
	}
	why := "the rule does not exist, or has no copies of this namespace"
	for _, name := range r.clustersOf(name, obj.Namespace) {
		var c hubv1.Cluster
		err := r.params.APIReader.Get(ctx, client.ObjectKey{Name: name}, &c)
		switch {
		case apierrors.IsNotFound(err):
			why = "the Cluster " + name + " does not exist"
			continue
		case err != nil:
			return "", fmt.Errorf("read the Cluster %s: %w", name, err)
		case !r.book.runs(&c):
			why = "the Cluster " + name + " does not run the module " + Name
			continue
		}
		if why = r.away(obj, finalizer, &c); why == "" {
			return "", nil
		}
	}
	return why, nil
}

// clustersOf returns, sorted, whose namespace it may be by the rules of a name: an override may have another
// template.
func (r *releaser) clustersOf(rule, namespace string) []string {
	var names []string
	for _, one := range r.rules {
		if cluster, ok := one.ClusterOf(namespace); ok && one.Name == rule {
			names = append(names, cluster)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// away says why a Cluster that runs the module will not release an object.
func (r *releaser) away(obj *metav1.PartialObjectMetadata, finalizer string, c *hubv1.Cluster) string {
	name, _ := rules.RuleOfFinalizer(finalizer)
	all := r.book.Of(c.Labels)
	i := slices.IndexFunc(all, func(one rules.Rule) bool {
		return one.Name == name && one.GVK() == r.kind && holds(one) && slices.Contains(one.SourceNamespaces(c.Name), obj.Namespace)
	})
	if i < 0 {
		return "the rule does not exist for the Cluster " + c.Name
	}
	reachable := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReachable)
	responds := reachable != nil && reachable.Status == metav1.ConditionTrue
	selector := all[i].ObjectLabels()
	if responds && selector != nil && !selector.Matches(labels.Set(obj.Labels)) && time.Since(obj.DeletionTimestamp.Time) > unselectedAfter {
		return "the rule does not select the object any longer"
	}
	after, ok := r.book.Abandon(c.Labels)
	if ok && reachable != nil && !responds && time.Since(reachable.LastTransitionTime.Time) > after {
		return "the Cluster " + c.Name + " was not reachable for " + after.String()
	}
	return ""
}

// left is the event about an object released although its copy may exist.
func left(rule string, obj client.Object, why string) string {
	return fmt.Sprintf("The copy that rule %s has made of %s/%s may still exist, and is not deleted: %s.",
		rule, obj.GetNamespace(), obj.GetName(), why)
}
