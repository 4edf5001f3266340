// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errNoPermission = errors.New(
	"the hub may not get customresourcedefinitions in its own cluster; add that to the HubRules of the module")

// crdKind is the kind of the definitions of kinds.
func crdKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
}

// newReader returns a reader of the hub's API server. It sends no request.
func (p *Pool) newReader(config *rest.Config, c *http.Client) (client.Reader, error) {
	return client.New(config, client.Options{HTTPClient: c, Scheme: p.options.Scheme, Mapper: p.options.Mapper})
}

// IsDeleted reports whether the object of a tombstone was deleted. It asks the hub's API server, because a watch also reports
// as deleted what has lost the labels of the selection, and what was deleted with the definition of its kind. An error means
// that the API server does not tell.
func (s *Subscription) IsDeleted(ctx context.Context, t Tombstone) (bool, error) {
	if t.Object == nil || !t.Seen && t.Object.GetDeletionTimestamp() == nil {
		return false, nil
	}
	e := s.entry
	ctx, cancel := context.WithTimeout(ctx, e.pool.options.Timeout)
	defer cancel()
	gone, err := e.isGone(ctx, t.Object)
	if err == nil && gone {
		// A definition that is read after the object had gone was there when it went.
		gone, err = e.isDefined(ctx, t.Object)
	}
	if err != nil {
		return false, fmt.Errorf("confirm that %s %s of the hub was deleted: %w", e.of.Kind.Kind, client.ObjectKeyFromObject(t.Object), err)
	}
	return gone, nil
}

// isGone reports whether the API server serves the kind, and not the object.
func (e *entry) isGone(ctx context.Context, last client.Object) (bool, error) {
	now, err := e.metadata(ctx, e.of.Kind, client.ObjectKeyFromObject(last))
	switch {
	case err == nil:
		return now.UID != last.GetUID(), nil
	case isNotServed(err):
		return false, nil
	case apierrors.IsNotFound(err):
		return true, nil
	}
	return false, err
}

// isDefined reports whether the kind exists now, and has existed since before the object. The groups of Kubernetes itself
// always do; every other kind needs a CustomResourceDefinition that is older than the object, and is not being deleted.
func (e *entry) isDefined(ctx context.Context, last client.Object) (bool, error) {
	kind := e.of.Kind.GroupKind()
	if clientgoscheme.Scheme.IsGroupRegistered(kind.Group) {
		return true, nil
	}
	mapping, err := e.pool.options.Mapper.RESTMapping(kind, e.of.Kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	crd, err := e.metadata(ctx, crdKind(), client.ObjectKey{Name: mapping.Resource.GroupResource().String()})
	switch {
	case apierrors.IsNotFound(err), isNotServed(err):
		return false, nil
	case apierrors.IsForbidden(err):
		return false, errNoPermission
	case err != nil:
		return false, err
	}
	created := last.GetCreationTimestamp()
	return crd.DeletionTimestamp == nil && !created.Before(&crd.CreationTimestamp), nil
}

func (e *entry) metadata(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	one := &metav1.PartialObjectMetadata{}
	one.SetGroupVersionKind(kind)
	return one, e.reader.Get(ctx, key, one)
}

// isNotServed reports whether an error says that the API server does not serve the kind, or that the response is not of an
// API server.
func isNotServed(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
