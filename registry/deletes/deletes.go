// SPDX-License-Identifier: Apache-2.0

package deletes

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/errtree"
)

// ErrHeld is the error of a held delete. Errors that wrap it are *HeldError.
var ErrHeld = errors.New("the delete is held")

// HeldError is an ErrHeld with its reason.
type HeldError struct {
	Reason Reason
	// ID is for an operator who allows the deletes; set for LimitExceeded only.
	ID  string
	Err error
}

// Error returns the text of Err.
func (e *HeldError) Error() string { return e.Err.Error() }

// Unwrap returns ErrHeld and Err.
func (e *HeldError) Unwrap() []error { return []error{ErrHeld, e.Err} }

// IsHeld reports whether an error says that deletes are held and nothing else: each error that it joins is an ErrHeld.
func IsHeld(err error) bool {
	return errtree.All(err, func(err error) bool {
		_, held := err.(*HeldError) //nolint:errorlint // All unwraps.
		return held
	})
}

// Reason is why a delete is held.
type Reason string

// The reasons.
const (
	// LimitExceeded: the delete is beyond a limit.
	LimitExceeded Reason = "LimitExceeded"
	// SourceStale: an informer of the module has no current objects, so that the module does not see its source.
	SourceStale Reason = "SourceStale"
	// NoEvidence: the evidence of a declared delete does not hold.
	NoEvidence Reason = "NoEvidence"
	// StoreUnavailable: the hub cannot read or write its holds.
	StoreUnavailable Reason = "StoreUnavailable"
)

// Limits are the limits of one module. The zero Limits are those of every module.
type Limits struct {
	// PerTarget is how many objects of a kind the module may delete in one cluster within ten minutes, less those that
	// it has created there; PerFleet, in all clusters. Default: 20 and 100; 3 and 10 for Namespaces,
	// CustomResourceDefinitions, PersistentVolumes and PersistentVolumeClaims.
	PerTarget, PerFleet int
	// Exempt resources are not limited, such as objects that the module could make again at any time. Default: none.
	Exempt []schema.GroupResource
}

// Evidence is a reason for a delete that does not depend on what a source lacks; see Terminating, Tombstone, Confirmed.
type Evidence struct {
	Kind EvidenceKind
	// Err says why the evidence does not hold; nil if it does.
	Err error
	// Parent is for Terminating; nil for others.
	Parent client.Object
}

// EvidenceKind is a kind of evidence, for metrics.
type EvidenceKind string

// The kinds of evidence. The hub itself adds Cleanup for cleanup steps.
const (
	KindTerminating EvidenceKind = "terminating"
	KindTombstone   EvidenceKind = "tombstone"
	KindConfirmed   EvidenceKind = "confirmed"
	KindCleanup     EvidenceKind = "cleanup"
)

var (
	errNoParent    = errors.New("there is no parent")
	errNotDeleted  = errors.New("the parent has no deletionTimestamp")
	errNoTombstone = errors.New("a tombstone names an object and a revision")
	errNoID        = errors.New("a confirmation has an id")
)

// Terminating is the evidence of an object that exists for a parent which is being deleted: parent, as it was read, has
// a deletionTimestamp. The hub reads the parent again, in the cluster of the delete or in its own. If its definition or
// Namespace is being deleted, too, it is no evidence, and the deletes count towards the limits.
func Terminating(parent client.Object) Evidence {
	e := Evidence{Kind: KindTerminating, Parent: parent}
	switch {
	case parent == nil, reflect.ValueOf(parent).Kind() == reflect.Pointer && reflect.ValueOf(parent).IsNil():
		e.Err = errNoParent
	case parent.GetDeletionTimestamp() == nil:
		e.Err = fmt.Errorf("%w: %s", errNotDeleted, client.ObjectKeyFromObject(parent))
	}
	return e
}

// Tombstone is the evidence of a delete that the module has seen in its source, as an event or an entry. revision is
// the source's, at the delete.
func Tombstone(object, revision string) Evidence {
	e := Evidence{Kind: KindTombstone}
	if object == "" || revision == "" {
		e.Err = errNoTombstone
	}
	return e
}

// Confirmed is the evidence of a person or system that has confirmed the delete, by the id of the confirmation.
func Confirmed(id string) Evidence {
	e := Evidence{Kind: KindConfirmed}
	if id == "" {
		e.Err = errNoID
	}
	return e
}

type evidenceKey struct{}

// OnPurpose returns a context whose deletes are declared, and so not limited. If the evidence does not hold, they are
// refused with a HeldError.
func OnPurpose(ctx context.Context, e Evidence) context.Context {
	return context.WithValue(ctx, evidenceKey{}, e)
}

// EvidenceOf returns the evidence that a context declares.
func EvidenceOf(ctx context.Context) (Evidence, bool) {
	e, ok := ctx.Value(evidenceKey{}).(Evidence)
	return e, ok
}

type owningKey struct{}

// Owning returns a context for deletes of a module that owns so many objects of a kind in a cluster, counted before one
// delete or before many. At most half of them are deleted within ten minutes, and at least one.
func Owning(ctx context.Context, objects int) context.Context {
	return context.WithValue(ctx, owningKey{}, objects)
}

// OwnedIn returns the number that Owning was called with, or 0.
func OwnedIn(ctx context.Context) int {
	n, _ := ctx.Value(owningKey{}).(int)
	return n
}

type causeKey struct{}

// maxCause is the length of a cause in bytes. Causes that begin with the same bytes count together.
const maxCause = 128

// CausedBy returns a context for the deletes and creates that one of many things asks for, such as an entity, a rule or
// a Cluster. Each cause has the limits for itself, and a hold of one holds no other; all together have five times the
// limits. The cause must exist and have been read, such as a rule whose originals have gone: the absence of the cause itself is
// none, or a source that looks empty would have as many limits as it had things.
// Operators see the cause, so it must have no texts of a remote. An empty cause is none.
func CausedBy(ctx context.Context, cause string) context.Context {
	return context.WithValue(ctx, causeKey{}, strings.ToValidUTF8(cause[:min(len(cause), maxCause)], ""))
}

// CauseIn returns the cause that CausedBy was called with, or "".
func CauseIn(ctx context.Context) string {
	cause, _ := ctx.Value(causeKey{}).(string)
	return cause
}

// Hold holds the deletes of one module and resource.
type Hold struct {
	// ID is unique in the hub, such as quota-configmaps-7f3a, and never used again.
	ID       string
	Module   string
	Resource schema.GroupResource
	// Cluster is where the limit was exceeded; empty for the hub. Fleet says that it was that of all clusters, so that
	// deletes are held in all.
	Cluster string
	Fleet   bool
	// Cause is what CausedBy names; empty for deletes without one, and "all causes" for those with any.
	Cause string
	Since time.Time
	// Deleted objects were deleted within ten minutes before the hold; More refused deletes are known.
	Deleted, More int
	// Names are up to ten objects of refused deletes, sorted. They are texts of the cluster.
	Names []string
	// Allowed is how many deletes an operator has allowed.
	Allowed int
}

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
