// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// remainsEvery is how often an app looks for rules that have ended without it.
const remainsEvery = 30 * time.Second

// remains ends, when a remote has returned, the rules that were deleted while it was away. Nothing declares these deletes.
type remains struct{ params Params }

func (r *remains) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := r.end(ctx); err != nil && ctx.Err() == nil {
			r.params.Logger.Error(err, "Failed to end a rule that was deleted while the remote was away; it is tried again")
		}
	}, remainsEvery)
	return nil
}

func (r *remains) end(ctx context.Context) error {
	key := client.ObjectKey{Name: string(r.params.Name)}
	var cluster hubv1.Cluster
	if err := r.params.HubCache.Get(ctx, key, &cluster); err != nil || len(cluster.Status.Remains) == 0 {
		return client.IgnoreNotFound(err)
	}
	var ended []string
	var all []error
	for _, one := range cluster.Status.Remains {
		if err := r.endOne(ctx, one); err != nil {
			all = append(all, fmt.Errorf("end the rule %s: %w", one.Rule, err))
			continue
		}
		ended = append(ended, one.UID)
	}
	return errors.Join(append(all, r.forget(ctx, key, ended))...)
}

// endOne does nothing if a rule of the same name, kind and source has taken the copies over.
func (r *remains) endOne(ctx context.Context, one hubv1.SyncRemains) error {
	var now hubv1.SyncRule
	err := r.params.HubClient.Get(ctx, client.ObjectKey{Name: one.Rule}, &now)
	isSame := err == nil && now.Spec.From == one.From && now.Spec.Kind.APIVersion == one.Kind.APIVersion && now.Spec.Kind.Kind == one.Kind.Kind
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return err
	}
	if isSame {
		return nil
	}
	c := newCleaner(r.params, rules.Rule{
		SyncRuleSpec: hubv1.SyncRuleSpec{From: one.From, DeletionPolicy: one.Policy, Kind: one.Kind},
		Name:         one.Rule, UID: types.UID(one.UID), IsTerminating: true,
	})
	c.at.HubID = one.HubID
	return c.endCopies(deletes.CausedBy(ctx, "rule "+one.Rule))
}

func (r *remains) forget(ctx context.Context, key client.ObjectKey, ended []string) error {
	if len(ended) == 0 {
		return nil
	}
	before := &hubv1.Cluster{}
	if err := r.params.HubClient.Get(ctx, key, before); err != nil {
		return client.IgnoreNotFound(err)
	}
	after := before.DeepCopy()
	after.Status.Remains = slices.DeleteFunc(after.Status.Remains, func(one hubv1.SyncRemains) bool { return slices.Contains(ended, one.UID) })
	return patchRemains(ctx, r.params.HubClient, before, after)
}
