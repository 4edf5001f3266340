// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// releasers have a controller for each kind with one-to-one rules from the hub. They release deleted originals whose copy no pair
// will delete.
type releasers struct {
	book   book
	params registry.HubPart
	rules  *rules.Compiler

	mu    sync.Mutex // protects kinds
	kinds map[schema.GroupVersionKind]bool
}

// ensure adds the controller of a kind that the hub serves, unless it is there.
func (r *releasers) ensure(kind schema.GroupVersionKind) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds[kind] {
		return nil
	}
	if _, err := r.params.RESTMapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		return err
	}
	name := strings.ReplaceAll("sync-release-"+strings.ToLower(kind.GroupKind().String()), ".", "-")
	err := registry.ControllerManagedBy(r.params.Manager).Named(name).
		For(partial(kind), builder.OnlyMetadata, builder.WithPredicates(predicate.NewPredicateFuncs(isHeld))).Complete(&releaser{r, kind})
	r.kinds[kind] = err == nil
	return err
}

type releaser struct {
	*releasers
	kind schema.GroupVersionKind
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
	obj := partial(r.kind)
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
		r.params.EventRecorder.Eventf(obj, nil, corev1.EventTypeWarning, rules.ReasonCopyLeftBehind, "Release",
			"The copy that rule %s has made of %s/%s may still exist, and is not deleted: %s.", name, obj.GetNamespace(), obj.GetName(), why)
		return reconcile.Result{}, nil // One at a time: the object has changed, and its watch requests it again.
	}
	return reconcile.Result{RequeueAfter: lookAgain}, nil
}

// abandoned says why the copy is given up; empty if it is not.
func (r *releaser) abandoned(ctx context.Context, obj *metav1.PartialObjectMetadata, finalizer string) (string, error) {
	name, _ := rules.RuleOfFinalizer(finalizer)
	ours := rules.Rule{SyncRuleSpec: hubv1.SyncRuleSpec{From: hubv1.SyncFromHub}, Name: name}
	if finalizer != ours.Finalizer(rules.Place{HubID: r.params.Options.HubID}) {
		return "another hub has made it, as before this one was restored into a new cluster", nil
	}
	found := &hubv1.SyncRule{}
	if err := r.params.Client.Get(ctx, client.ObjectKey{Name: name}, found); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read the rule %s: %w", name, err)
	}
	rule, _ := r.rules.Compile(found) // One that is missing or invalid has no namespaces.
	cluster, ok := rule.ClusterOf(obj.Namespace)
	if !ok || rule.GVK() != r.kind || !rule.HasFinalizers() || !slices.Contains(rule.SourceNamespaces(cluster), obj.Namespace) {
		return "the rule does not exist, or has no copies of this namespace", nil
	}
	if rule.IsTerminating {
		return "", nil // Its end releases all originals.
	}
	var c hubv1.Cluster
	err := r.params.APIReader.Get(ctx, client.ObjectKey{Name: cluster}, &c)
	switch {
	case apierrors.IsNotFound(err):
		return "the Cluster " + cluster + " does not exist", nil
	case err != nil:
		return "", fmt.Errorf("read the Cluster %s: %w", cluster, err)
	case !r.book.runs(&c):
		return "the Cluster " + cluster + " does not run the module " + Name, nil
	case !rule.SelectsCluster(c.Labels):
		return "the rule does not select the Cluster " + cluster, nil
	}
	return unselected(obj, rule, &c), nil
}

// unselected says why a Cluster that runs the module will not release an object.
func unselected(obj *metav1.PartialObjectMetadata, rule rules.Rule, c *hubv1.Cluster) string {
	responds := meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionReachable)
	if responds && !rule.Selector(c.Name, nil).MaySelect(obj) && time.Since(obj.DeletionTimestamp.Time) > unselectedAfter {
		return "the rule does not select the object any longer"
	}
	return ""
}
