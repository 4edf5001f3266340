// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

const maxGenerated = 52

// Create creates an object in the namespace of the controller's object, with it as the only owner, and with
// InstanceLabel. A generateName gives the same name each time. If the owner has the object already, Create reads it
// into obj and succeeds. Put credentials of external systems into a Secret made so, never into a status.
func (c *Controller[O]) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	gvk, err := c.adopt(obj)
	if err != nil {
		return err
	}
	if prefix := obj.GetGenerateName(); obj.GetName() == "" && prefix != "" {
		identity := fmt.Sprintf("%s\n%s\n%s", c.key.uid, c.key.kind, gvk.GroupKind())
		obj.SetName(prefix[:min(len(prefix), maxGenerated)] + digest(identity+"\n"+prefix))
		obj.SetGenerateName("")
	}
	opts = append([]client.CreateOption{client.FieldOwner(c.host.options.identity())}, opts...)
	err = c.host.client.Create(ctx, obj, opts...)
	if apierrors.IsAlreadyExists(err) {
		return c.reuse(ctx, obj, gvk, err)
	}
	if err != nil {
		return fmt.Errorf("create %s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	return nil
}

func (c *Controller[O]) reuse(ctx context.Context, obj client.Object, gvk schema.GroupVersionKind, exists error) error {
	found := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	found.GetObjectKind().SetGroupVersionKind(gvk)
	if err := c.host.live.Get(ctx, client.ObjectKeyFromObject(obj), found); err != nil {
		return fmt.Errorf("read %s %s, which exists: %w", gvk.Kind, obj.GetName(), err)
	}
	if !metav1.IsControlledBy(found, c.object) {
		return fmt.Errorf("create %s %s: it has another owner; delete it, or choose another name: %w",
			gvk.Kind, obj.GetName(), exists)
	}
	if !found.GetDeletionTimestamp().IsZero() {
		return fmt.Errorf("create %s %s: the previous object of this name is still being deleted: %w", gvk.Kind, obj.GetName(), exists)
	}
	overwrite(obj, found)
	return nil
}

// Apply is Create by server-side apply: it creates or updates, and removes fields that the last Apply had. It does
// not change obj.
func (c *Controller[O]) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	fields, err := object.Generic(obj)
	if err != nil {
		return fmt.Errorf("convert the object to be applied: %w", err)
	}
	applied := &unstructured.Unstructured{Object: fields}
	gvk, err := c.adopt(applied)
	if err != nil {
		return err
	}
	opts = append([]client.ApplyOption{client.FieldOwner(c.host.options.identity())}, opts...)
	if err := c.host.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), opts...); err != nil {
		return fmt.Errorf("apply %s %s: %w", gvk.Kind, applied.GetName(), err)
	}
	return nil
}

// Delete deletes an object with the client. The error is NotFound if there is none.
func (c *Controller[O]) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return c.host.client.Delete(ctx, obj, opts...)
}

func (c *Controller[O]) adopt(obj client.Object) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(obj, c.host.client.Scheme())
	if err != nil {
		return gvk, fmt.Errorf("find the kind of the object: %w", err)
	}
	if ns := c.object.GetNamespace(); ns != "" {
		obj.SetNamespace(ns)
	}
	obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(c.object, c.host.gvk)})
	obj.SetLabels(labels.Merge(obj.GetLabels(), labels.Set{InstanceLabel: InstanceOf(c.object)}))
	return gvk, nil
}

// InstanceOf returns the InstanceLabel for objects that belong to obj.
func InstanceOf(obj client.Object) string { return fit(obj.GetName(), maxLabel) }

const maxLabel = 63
