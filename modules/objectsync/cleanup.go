// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

const pageSize = 500

// cleanup deletes the copies of rules with onDeregister: Delete.
func cleanup(p Params) registry.CleanupStep {
	return registry.CleanupStep{Name: "sync/copies", Order: math.MaxInt, Run: func(ctx context.Context) error {
		var list hubv1.SyncRuleList
		if err := p.HubClient.List(ctx, &list); meta.IsNoMatchError(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("list the SyncRules: %w", err)
		}
		var all []error
		for i := range list.Items {
			r, err := rules.Compile(&list.Items[i])
			if err != nil || !r.SelectsCluster(p.Labels()) || r.OnDeregister != hubv1.SyncDelete || r.Mode == hubv1.SyncObserve {
				continue
			}
			ctx, c := ctx, newCleaner(p, r)
			if r.From == hubv1.SyncFromRemote {
				ctx = deletes.OnPurpose(ctx, deletes.Confirmed("the removal of Cluster "+c.at.Cluster))
			}
			if err := c.eachCopy(ctx, c.remove); err != nil {
				all = append(all, fmt.Errorf("rule %s: %w", r.Name, err))
			}
		}
		return errors.Join(all...)
	}}
}

type cleaner struct {
	rule   rules.Rule
	at     rules.Place
	live   client.Reader // of the cluster with the copies
	target client.Client
}

func newCleaner(p Params, r rules.Rule) cleaner {
	c := cleaner{rule: r, at: placeOf(p), live: p.APIReader, target: p.Client}
	if r.From == hubv1.SyncFromRemote {
		c.live, c.target = p.HubClient, p.HubClient
	}
	return c
}

// each reads pages, and continues after an object that cannot be changed.
func (c cleaner) each(ctx context.Context, o []client.ListOption, f func(*metav1.PartialObjectMetadata) error) error {
	var all []error
	for token, more := "", true; more && ctx.Err() == nil; {
		page := metadataOf(c.rule.GVK())
		err := c.live.List(ctx, page, append(slices.Clone(o), client.Limit(pageSize), client.Continue(token))...)
		if meta.IsNoMatchError(err) {
			return nil // There are none of that kind.
		}
		if err != nil {
			return fmt.Errorf("list the objects: %w", err)
		}
		for i := range page.Items {
			page.Items[i].SetGroupVersionKind(c.rule.GVK())
			if err := f(&page.Items[i]); err != nil {
				all = append(all, err)
			}
		}
		token, more = page.Continue, page.Continue != ""
	}
	return errors.Join(append(all, ctx.Err())...)
}

func release(ctx context.Context, c client.Client, one *metav1.PartialObjectMetadata, finalizer string) error {
	before := one.DeepCopy()
	if !controllerutil.RemoveFinalizer(one, finalizer) {
		return nil
	}
	return patchMetadata(ctx, client.WithFieldOwner(c, finalizer), before, one)
}

// patchMetadata fails if the object is not as before. One that has gone is no error.
func patchMetadata(ctx context.Context, c client.Client, before, after client.Object) error {
	err := c.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change the metadata of %s: %w", client.ObjectKeyFromObject(before), err)
	}
	return nil
}
