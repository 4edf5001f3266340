// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/evidence"
)

func (p *Pool) newReader(config *rest.Config, c *http.Client) (client.Reader, error) {
	return client.New(config, client.Options{HTTPClient: c, Scheme: p.options.Scheme, Mapper: p.options.Mapper})
}

// IsDeleted asks the hub's API server whether the object of a tombstone was deleted: a watch also reports what has lost
// the selected labels, and what went with the definition of its kind. An error means that the API server does not tell.
func (s *Subscription) IsDeleted(ctx context.Context, t Tombstone) (bool, error) {
	if t.Object == nil || !t.Seen && t.Object.GetDeletionTimestamp() == nil {
		return false, nil
	}
	e := s.entry
	ctx, cancel := context.WithTimeout(ctx, e.pool.options.Timeout)
	defer cancel()
	gone, err := e.isGone(ctx, t.Object)
	if err == nil && gone {
		// Read after the object had gone: it was there when the object went.
		err = evidence.Place{Reader: e.reader, Mapper: e.pool.options.Mapper}.OnPurpose(ctx, e.of.Kind, t.Object)
	}
	switch {
	case errors.Is(err, evidence.ErrNone):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("confirm that %s %s of the hub was deleted: %w", e.of.Kind.Kind, client.ObjectKeyFromObject(t.Object), err)
	}
	return gone, nil
}

// isGone: the API server serves the kind, and not the object.
func (e *entry) isGone(ctx context.Context, last client.Object) (bool, error) {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(e.of.Kind)
	err := e.reader.Get(ctx, client.ObjectKeyFromObject(last), now)
	switch {
	case err == nil:
		return now.UID != last.GetUID(), nil
	case evidence.IsNotServed(err):
		return false, nil
	case apierrors.IsNotFound(err):
		return true, nil
	}
	return false, err
}
