// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// ErrNone is in the errors that say why a deletion is no evidence.
var ErrNone = errors.New("its deletion is no evidence")

// Place is an API server that has, or had, an object.
type Place struct {
	Reader client.Reader // Reader must read live, and may get Namespaces and CustomResourceDefinitions
	Mapper meta.RESTMapper
}

// OnPurpose returns nil if an object that is being deleted, or has gone, was deleted by itself. last is its last
// known state. The error wraps ErrNone and names what went instead; without ErrNone the API server does not tell. It
// waits for two requests, and one for each owner.
func (p Place) OnPurpose(ctx context.Context, kind schema.GroupVersionKind, last client.Object) error {
	if err := p.isDefined(ctx, kind, last); err != nil {
		return err
	}
	for _, owner := range last.GetOwnerReferences() { // The garbage collector deletes an object with its owner, and so with its kind.
		if err := p.isDefined(ctx, schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind), last); err != nil {
			return err
		}
	}
	namespace := last.GetNamespace()
	if namespace == "" {
		return nil
	}
	return p.outlives(ctx, last, schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, namespace)
}

// isDefined is nil for Kubernetes' groups. All others need a CustomResourceDefinition.
func (p Place) isDefined(ctx context.Context, kind schema.GroupVersionKind, last client.Object) error {
	if clientgoscheme.Scheme.IsGroupRegistered(kind.Group) {
		return nil
	}
	mapping, err := p.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w: the API server does not serve the kind %s", ErrNone, kind.GroupKind())
	}
	if err != nil {
		return fmt.Errorf("find the definition of the kind %s: %w", kind.GroupKind(), err)
	}
	crd := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	return p.outlives(ctx, last, crd, mapping.Resource.GroupResource().String())
}

// outlives is nil if an owner is there, is older, and was not deleted before. Times have seconds: the same second is
// no evidence.
func (p Place) outlives(ctx context.Context, last client.Object, kind schema.GroupVersionKind, name string) error {
	what := kind.Kind
	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(kind)
	err := p.Reader.Get(ctx, client.ObjectKey{Name: name}, owner)
	created, deleted := last.GetCreationTimestamp(), last.GetDeletionTimestamp()
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return fmt.Errorf("%w: the %s %s is gone", ErrNone, what, name)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the hub may not see whether the %[1]s %[2]s is being deleted, grant get on it: %[3]w", what, name, err)
	case err != nil:
		return fmt.Errorf("read the %s %s: %w", what, name, err)
	case created.Before(&owner.CreationTimestamp):
		return fmt.Errorf("%w: the %s %s is younger than it", ErrNone, what, name)
	case owner.DeletionTimestamp != nil && (deleted == nil || !deleted.Before(owner.DeletionTimestamp)):
		return fmt.Errorf("%w: the %s %s is being deleted", ErrNone, what, name)
	}
	return nil
}

// IsNotServed reports whether the kind is not served, or the response is not an API server's. Neither says that an object
// does not exist.
func IsNotServed(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Home is a Place with a reader of its objects, which may act as another user.
type Home struct {
	Place
	Objects client.Reader // Objects must read live
}

// A Judge remembers so many, for so long: a restored hub has them alive again.
const (
	maxProven = 1000
	provenFor = 10 * time.Minute
)

// Judge judges the parents of declared deletes, from any goroutine. NewJudge makes it.
type Judge struct {
	scheme  *runtime.Scheme
	homes   func() []Home
	timeout time.Duration
	proven  *cache.LRUExpireCache // the UIDs
}

// NewJudge returns a Judge of parents whose types the scheme has. homes may have a parent, and are asked in order. timeout
// bounds the requests for one parent.
func NewJudge(scheme *runtime.Scheme, homes func() []Home, timeout time.Duration) *Judge {
	return &Judge{scheme: scheme, homes: homes, timeout: timeout, proven: cache.NewLRUExpireCache(maxProven)}
}

// Terminating returns nil if a parent is being deleted on purpose; see Place.OnPurpose for errors. It asks the first
// of the homes that has the UID, once in ten minutes.
func (j *Judge) Terminating(ctx context.Context, parent client.Object) error {
	uid := parent.GetUID()
	if _, proven := j.proven.Get(uid); proven {
		return nil
	}
	kind, err := apiutil.GVKForObject(parent, j.scheme)
	if err != nil {
		return fmt.Errorf("%w: its kind is not known: %w", ErrNone, err)
	}
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	var unknown error
	for _, home := range j.homes() {
		now := &metav1.PartialObjectMetadata{}
		now.SetGroupVersionKind(kind)
		err := home.Objects.Get(ctx, client.ObjectKeyFromObject(parent), now)
		switch {
		case IsNotServed(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err), err == nil && now.GetUID() != uid:
			continue
		case err != nil: // Another Home may have it.
			unknown = fmt.Errorf("read the parent: %w", err)
			continue
		case now.DeletionTimestamp == nil:
			return fmt.Errorf("%w: it is not being deleted", ErrNone)
		}
		err = home.OnPurpose(ctx, kind, now)
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w: %w", ErrNone, err)
		}
		if err != nil {
			return err
		}
		j.proven.Add(uid, true, provenFor)
		return nil
	}
	if unknown != nil {
		return unknown
	}
	return fmt.Errorf("%w: no API server has it", ErrNone)
}
