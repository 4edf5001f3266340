// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// A process that knows less of the history of an order writes nothing: the mark of a secondary keeps the life that it has.
func TestApply_KeepsTheLife(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	before := s.wait(t, "a.x", "1")
	s.stop()
	for range 2 * bucket.History { // The first revision is no longer in the bucket.
		s.put(t, "a.x", value("1"))
	}
	s.process(t)
	s.put(t, "a.y", value("1"))
	s.wait(t, "a.y", "1")
	e, err := s.store.Get("a.x")
	testkit.Must(t, err)
	testkit.Eventually(t, func() error {
		if p := s.waitPart(t, "a.x", "Made"); p.Revision != e.Revision {
			return fmt.Errorf("revision %d is not reconciled yet: %+v", e.Revision, p)
		}
		return nil
	})
	testkit.Equal(t, s.wait(t, "a.x", "1").ResourceVersion, before.ResourceVersion, "the secondary was written")
}

// A secondary that is as desired costs no request, for typed and for unstructured objects, also in a new process and when it is
// reconciled again.
func TestApply_NoRequest(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]func(*corev1.ConfigMap) client.Object{
		"typed": func(c *corev1.ConfigMap) client.Object { return c },
		"unstructured": func(c *corev1.ConfigMap) client.Object {
			u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"k": c.Data["k"]}}}
			u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			u.SetNamespace(c.Namespace)
			u.SetName(c.Name)
			return u
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := beginWith(t, func(s *stage) {
				s.adapt = func(*entity.Options, entity.Reconciler[order], func(string) *bucket.Bucket) entity.Reconciler[order] {
					return entity.Func[order](func(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
						err := out.Apply(ctx, object(s.configMap(e.Key, e.Value.Data)))
						s.reconciles.Add(1)
						return entity.Report{Ready: err == nil}, err
					})
				}
			})
			s.put(t, "a.x", value("1"))
			s.wait(t, "a.x", "1")
			s.stop()
			s.applied.Store(0)
			s.process(t)
			for range 3 {
				before := s.reconciles.Load()
				testkit.Eventually(t, func() error {
					s.controller.EnqueueKey("a.x", entity.OperationResync)
					if s.reconciles.Load() <= before+1 {
						return errors.New("it is not reconciled again yet")
					}
					return nil
				})
			}
			testkit.Equal(t, s.applied.Load(), 0, "requests to apply")
			s.put(t, "a.x", value("2"))
			s.wait(t, "a.x", "2")
		})
	}
}

// A kind that Owns lacks is refused, and a bucket that OwnsEntities lacks: nothing would collect what is there.
func TestApply_OfAnotherKind(t *testing.T) {
	t.Parallel()
	refused := make(chan error, 100)
	s := beginWith(t, func(s *stage) {
		s.adapt = func(*entity.Options, entity.Reconciler[order], func(string) *bucket.Bucket) entity.Reconciler[order] {
			return entity.Func[order](func(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
				refused <- out.Apply(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: e.Key}})
				refused <- entity.PutEntity(ctx, out, s.store, entity.Entity[order]{Key: e.Key + ".copy"})
				return entity.Report{}, nil
			})
		}
	})
	s.put(t, "a.x", value("1"))
	for range 2 {
		testkit.ErrorIs(t, <-refused, entity.ErrInvalidOptions)
	}
	err := s.remote.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "a.x"}, &corev1.ServiceAccount{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the object was made: %v", err)
	}
}
