// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// remove removes finalizers, grants no grace period, and finalizes namespaces, since there is no controller manager. A
// namespace stays until it is empty: without it, finalizers in it could no longer be removed.
func (s *server) remove(ctx context.Context, objects contents) error {
	removing, ctx := errgroup.WithContext(ctx)
	removing.SetLimit(parallel)
	for key, o := range objects {
		if key.Resource == namespaces && objects.inside(key.name) {
			continue
		}
		removing.Go(func() error {
			err := s.removeOne(ctx, key, o)
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return nil // The next check shows the result.
			}
			return err
		})
	}
	return removing.Wait()
}

const namespaces = "namespaces"

func (c contents) inside(namespace string) bool {
	for key := range c {
		if key.namespace == namespace {
			return true
		}
	}
	return false
}

func (s *server) removeOne(ctx context.Context, key objectKey, o object) error {
	objects := s.objects.Resource(key.GroupVersionResource).Namespace(key.namespace)
	if o.finalizers && key.Resource != "customresourcedefinitions" { // The finalizer of a CRD removes the objects of its kind.
		_, err := objects.Patch(ctx, key.name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			return err
		}
	}
	now, background := int64(0), metav1.DeletePropagationBackground
	err := objects.Delete(ctx, key.name, metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background})
	if err != nil || key.Resource != namespaces {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.name}}
	return s.admin.SubResource("finalize").Update(ctx, ns)
}
