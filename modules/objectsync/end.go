// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// endCopies is declared if the context says why.
func (c cleaner) endCopies(ctx context.Context) error {
	if c.rule.DeletionPolicy == hubv1.SyncDelete {
		return c.eachCopy(ctx, c.remove)
	}
	return c.eachCopy(ctx, c.keep)
}

// keep replaces the label of a copy by an annotation.
func (c cleaner) keep(ctx context.Context, one *metav1.PartialObjectMetadata) error {
	before := one.DeepCopy()
	delete(one.Labels, c.rule.Identity(c.at).Keys().ManagedBy)
	metav1.SetMetaDataAnnotation(&one.ObjectMeta, hubv1.AnnotationKeptBy, c.rule.KeptBy(c.at))
	return patchMetadata(ctx, c.target, before, one)
}

func (c cleaner) remove(ctx context.Context, one *metav1.PartialObjectMetadata) error {
	return client.IgnoreNotFound(c.target.Delete(ctx, one, client.Preconditions{UID: &one.UID, ResourceVersion: &one.ResourceVersion}))
}

// eachCopy lists in the hub only namespaces in which the rule works, and in a remote that allows no more, too.
func (c cleaner) eachCopy(ctx context.Context, f func(context.Context, *metav1.PartialObjectMetadata) error) error {
	if c.rule.From == hubv1.SyncFromHub {
		err := c.eachCopyIn(ctx, []string{metav1.NamespaceAll}, f)
		if known := c.rule.TargetNamespaces(c.at.Cluster); apierrors.IsForbidden(err) && len(known) > 0 {
			return c.eachCopyIn(ctx, known, f)
		}
		return err
	}
	if known := c.rule.HubNamespaces(); len(known) > 0 {
		return c.eachCopyIn(ctx, append(known, c.rule.EarlierNamespaces(c.at.Cluster)...), f)
	}
	return c.eachCopyIn(ctx, []string{metav1.NamespaceAll}, f)
}

func (c cleaner) eachCopyIn(
	ctx context.Context, namespaces []string, f func(context.Context, *metav1.PartialObjectMetadata) error,
) error {
	copies := client.MatchingLabels{c.rule.Identity(c.at).Keys().ManagedBy: c.rule.Tenant(c.at)}
	var all []error
	for _, namespace := range namespaces {
		in := []client.ListOption{copies, client.InNamespace(namespace)}
		all = append(all, c.each(ctx, in, func(one *metav1.PartialObjectMetadata) error {
			if !translate.IsCopy(one) {
				return nil
			}
			return f(ctx, one)
		}))
	}
	return errors.Join(all...)
}
