// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/evidence"
)

// ErrNotOnPurpose is in the errors of DeletedOnPurpose that say what was deleted instead.
var ErrNotOnPurpose = errors.New("it was not deleted on purpose")

// DeletedOnPurpose returns nil if an object that is being deleted, or has gone, was deleted by itself, and not with its definition,
// an owner or its Namespace. hub must read live. It is for what a deletion means beside deletes, which deletes.Terminating judges.
func DeletedOnPurpose(ctx context.Context, hub client.Reader, of client.Client, last client.Object) error {
	kind, err := of.GroupVersionKindFor(last)
	if err != nil {
		return fmt.Errorf("find the kind of a deleted object: %w", err)
	}
	err = evidence.Place{Reader: hub, Mapper: of.RESTMapper()}.OnPurpose(ctx, kind, last)
	if errors.Is(err, evidence.ErrNone) {
		return fmt.Errorf("%w: %w", ErrNotOnPurpose, err)
	}
	return err
}
