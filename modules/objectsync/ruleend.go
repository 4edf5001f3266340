// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

const (
	// endWithin is how long the end of a rule waits for remotes that respond.
	endWithin = 10 * time.Minute
	// remainsManager is the field manager of status.remains of Clusters.
	remainsManager = client.FieldOwner("clusterfx-sync")
)

// end removes the finalizer of a rule when all remotes that respond have ended it, and what it leaves in the others is written down.
func (r *ruleReconciler) end(ctx context.Context, rule rules.Rule, s *standing) (ctrl.Result, error) {
	err := registry.DeletedOnPurpose(ctx, r.params.APIReader, r.params.Client, s.rule)
	switch {
	case errors.Is(err, registry.ErrNotOnPurpose): // The apps have left all as it was: the same rule finds its copies again.
		r.params.EventRecorder.Eventf(s.rule, nil, corev1.EventTypeWarning, "DefinitionDeleted", "End",
			"The definition of SyncRules is being deleted: the copies of the rule stay as they are.")
		return ctrl.Result{}, r.change(ctx, s.rule, removeFinalizer)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("judge the deletion of the rule %s: %w", rule.Name, err)
	}
	if !s.mayEnd(time.Now()) {
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	for _, c := range s.unended() {
		end := r.writeRemains
		if rule.From == hubv1.SyncFromRemote {
			end = r.endInHub
		}
		if err := end(ctx, c, rule, s.rule); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.releaseOriginals(ctx, rule); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.change(ctx, s.rule, removeFinalizer)
}

// mayEnd is false while remotes that respond have to end the rule, for some time.
func (s *standing) mayEnd(now time.Time) bool {
	return s.waiting() == 0 || now.Sub(s.rule.DeletionTimestamp.Time) >= endWithin
}

// unended are the Clusters that have not ended the rule, or may not have.
func (s *standing) unended() []*hubv1.Cluster {
	rest := s.known - s.ended
	if s.late || int(s.known) != len(s.selected) || int(rest) != len(s.unready) {
		return s.selected
	}
	return slices.DeleteFunc(slices.Clone(s.selected), func(c *hubv1.Cluster) bool { return !slices.Contains(s.unready, c.Name) })
}

// endInHub deals with the copies of a remote that does not respond.
func (r *ruleReconciler) endInHub(ctx context.Context, of *hubv1.Cluster, rule rules.Rule, terminating *hubv1.SyncRule) error {
	c := cleaner{
		rule: rule, at: rules.Place{HubID: r.params.Options.HubID, Cluster: of.Name}, live: r.params.APIReader, target: r.params.Client,
	}
	return c.endCopies(deletes.OnPurpose(ctx, deletes.Terminating(terminating)))
}

func (r *ruleReconciler) writeRemains(ctx context.Context, of *hubv1.Cluster, rule rules.Rule, _ *hubv1.SyncRule) error {
	before := &hubv1.Cluster{}
	if err := r.params.APIReader.Get(ctx, client.ObjectKeyFromObject(of), before); err != nil {
		return client.IgnoreNotFound(err)
	}
	if slices.ContainsFunc(before.Status.Remains, func(one hubv1.SyncRemains) bool { return one.UID == string(rule.UID) }) {
		return nil
	}
	after := before.DeepCopy()
	var forgotten []hubv1.SyncRemains
	after.Status.Remains, forgotten = withRemains(after.Status.Remains, hubv1.SyncRemains{
		Rule: rule.Name, UID: string(rule.UID), From: rule.From, HubID: r.params.Options.HubID, Policy: rule.DeletionPolicy, Kind: rule.Kind,
	})
	for _, one := range forgotten {
		r.params.EventRecorder.Eventf(before, nil, corev1.EventTypeWarning, "RemainsForgotten", "End",
			"Too many rules have ended while this Cluster was away: what rule %s has left there is forgotten.", one.Rule)
	}
	return patchRemains(ctx, r.params.Client, before, after)
}

// withRemains forgets the oldest ones.
func withRemains(all []hubv1.SyncRemains, one hubv1.SyncRemains) (after, forgotten []hubv1.SyncRemains) {
	all = append(all, one)
	n := max(0, len(all)-hubv1.MaxRemains)
	return all[n:], all[:n]
}

func patchRemains(ctx context.Context, c client.Client, before, after *hubv1.Cluster) error {
	err := c.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), remainsManager,
		client.FieldValidation(metav1.FieldValidationIgnore))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write what rules leave in the Cluster %s: %w", before.Name, err)
	}
	return nil
}

// releaseOriginals removes the finalizer of a one-to-one rule from its originals in the hub.
func (r *ruleReconciler) releaseOriginals(ctx context.Context, rule rules.Rule) error {
	if rule.From != hubv1.SyncFromHub || !rule.IsOneToOne() {
		return nil
	}
	finalizer := rule.Finalizer(rules.Place{HubID: r.params.Options.HubID})
	c := cleaner{rule: rule, live: r.params.APIReader}
	return c.each(ctx, nil, func(one *metav1.PartialObjectMetadata) error { return release(ctx, r.params.Client, one, finalizer) })
}
