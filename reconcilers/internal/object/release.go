// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry"
)

const (
	pageSize     = 500
	maxConflicts = 20 // for an object that others change all the time
	concurrency  = 8
)

// Release returns the step that removes a finalizer from all objects of a type in a remote that leaves. It is named
// after its owner and runs last, when other steps have deleted their objects. It continues after an object that
// cannot be changed.
func Release[O client.Object](mgr ctrl.Manager, owner, finalizer string) registry.CleanupStep {
	return registry.CleanupStep{Name: owner + "/finalizers", Order: math.MaxInt, Run: func(ctx context.Context) error {
		kind, err := KindOf[O](mgr.GetClient())
		if err != nil {
			return err
		}
		return release{
			Finalizers: Finalizers{Client: mgr.GetClient(), Kind: kind, Owner: finalizer},
			finalizer:  finalizer, live: mgr.GetAPIReader(), cached: mgr.GetCache(), scheme: mgr.GetScheme(),
		}.all(ctx)
	}}
}

type release struct {
	Finalizers
	finalizer string
	live      client.Reader
	cached    client.Reader
	scheme    *runtime.Scheme
}

// all reads pages from the API server, or the app's cache if credentials for some namespaces cannot list all.
func (r release) all(ctx context.Context) error {
	failed := Failed{What: "objects keep their finalizer"}
	for token, more := "", true; more && ctx.Err() == nil; {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(r.listKind())
		err := r.live.List(ctx, page, client.Limit(pageSize), client.Continue(token))
		if apierrors.IsForbidden(err) {
			page, err = r.seen(ctx)
		}
		if err != nil {
			return fmt.Errorf("list the %s objects with the finalizer %s: %w", r.Kind.Kind, r.finalizer, err)
		}
		for _, err := range r.each(ctx, page.Items) {
			failed.Note(err)
		}
		token, more = page.Continue, page.Continue != ""
	}
	failed.Note(ctx.Err())
	return failed.Err()
}

// each writes several at once: a remote may be far away, and the time of a step is short.
func (r release) each(ctx context.Context, objects []metav1.PartialObjectMetadata) []error {
	var all errgroup.Group
	all.SetLimit(concurrency)
	errs := make([]error, len(objects))
	for i := range objects {
		all.Go(func() error {
			errs[i] = r.one(ctx, &objects[i])
			return nil
		})
	}
	_ = all.Wait() // The errors are in errs.
	return errs
}

func (r release) seen(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
	empty, err := r.scheme.New(r.listKind())
	if err != nil {
		return nil, err
	}
	list, ok := empty.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is not a list of objects", empty)
	}
	if err := r.cached.List(ctx, list); err != nil {
		return nil, err
	}
	all := &metav1.PartialObjectMetadataList{}
	return all, meta.EachListItem(list, func(item runtime.Object) error {
		obj, err := meta.Accessor(item)
		if err == nil {
			all.Items = append(all.Items, *meta.AsPartialObjectMetadata(obj))
		}
		return err
	})
}

func (r release) listKind() schema.GroupVersionKind {
	return r.Kind.GroupVersion().WithKind(r.Kind.Kind + "List")
}

// one reads live after a conflict.
func (r release) one(ctx context.Context, found *metav1.PartialObjectMetadata) error {
	for conflicts := 0; ; conflicts++ {
		if !slices.Contains(found.Finalizers, r.finalizer) {
			return nil
		}
		without := slices.DeleteFunc(slices.Clone(found.Finalizers), func(f string) bool { return f == r.finalizer })
		_, err := r.Set(ctx, found, without)
		if !apierrors.IsConflict(err) || conflicts == maxConflicts {
			return ignoreGone(err, found)
		}
		if found, err = r.Read(ctx, r.live, found); err != nil {
			return ignoreGone(err, found)
		}
	}
}

func ignoreGone(err error, obj metav1.Object) error {
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	return fmt.Errorf("remove the finalizer of %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
}
