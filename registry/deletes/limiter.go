// SPDX-License-Identifier: Apache-2.0

package deletes

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Limiter limits deletes that are no requests to an API server, such as of entities in a bucket, as if they were: the
// same counts, holds and evidence. A module gets one of its own with its Remote or HubPart.
type Limiter interface {
	// Admit returns an error before a delete that must not happen; one that wraps ErrHeld is a hold, which says how to
	// allow it. Otherwise the caller calls done with whether the object was deleted. If that is not known it calls
	// nothing, and the delete counts, once for a uid: an object in one life.
	Admit(ctx context.Context, what schema.GroupResource, name string, uid types.UID) (done func(deleted bool), err error)
	// Created subtracts an object that the module has created.
	Created(ctx context.Context, what schema.GroupResource)
}
