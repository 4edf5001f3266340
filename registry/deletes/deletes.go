// SPDX-License-Identifier: Apache-2.0

package deletes

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/errtree"
)

// ErrHeld is the error of a delete that the hub holds. Errors that wrap it are *HeldError.
var ErrHeld = errors.New("the delete is held")

// HeldError is an ErrHeld with its reason.
type HeldError struct {
	Reason Reason
	// ID is the id of the hold, for an operator who allows the deletes; empty for other reasons than LimitExceeded.
	ID string
	// Err is the text of the error.
	Err error
}

// Error returns the text of Err.
func (e *HeldError) Error() string { return e.Err.Error() }

// Unwrap returns ErrHeld and Err.
func (e *HeldError) Unwrap() []error { return []error{ErrHeld, e.Err} }

// IsHeld reports whether an error says that deletes are held and nothing else: each of the errors that it joins is an
// ErrHeld.
func IsHeld(err error) bool {
	return errtree.All(err, func(err error) bool {
		_, held := err.(*HeldError) //nolint:errorlint // All unwraps.
		return held
	})
}

// Reason is why a delete is held.
type Reason string

const (
	// LimitExceeded is the reason of a delete beyond a limit.
	LimitExceeded Reason = "LimitExceeded"
	// SourceStale is the reason while an informer of the module has no current objects: the module does not see its
	// source.
	SourceStale Reason = "SourceStale"
	// NoEvidence is the reason of a declared delete whose evidence does not hold.
	NoEvidence Reason = "NoEvidence"
	// StoreUnavailable is the reason while the hub cannot read or write its holds.
	StoreUnavailable Reason = "StoreUnavailable"
)

// Limits are the limits of the deletes of one module. The zero Limits are the limits of every module.
type Limits struct {
	// PerTarget is how many objects of a kind the module may delete in one cluster within ten minutes, less the objects
	// that it has created there, and PerFleet how many in all clusters together. Default: 20 and 100; 3 and 10 for
	// Namespaces, CustomResourceDefinitions, PersistentVolumes and PersistentVolumeClaims.
	PerTarget, PerFleet int
	// Exempt are resources whose deletes are not limited, such as objects that the module could make again at any time.
	// Default: none.
	Exempt []schema.GroupResource
}

// Evidence is a reason for a delete that does not depend on what a source lacks. Make one with Terminating, Tombstone or
// Confirmed.
type Evidence struct {
	// Kind is the kind of the evidence, for metrics.
	Kind EvidenceKind
	// Err says why the evidence does not hold; nil if it does.
	Err error
	// Parent is the parent of Terminating; nil for others.
	Parent client.Object
}

// EvidenceKind is a kind of evidence.
type EvidenceKind string

// The kinds of evidence. Cleanup is the evidence of cleanup steps, which the hub adds itself.
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

// Terminating is the evidence of an object that exists for a parent which is being deleted: parent, as it was read, has a
// deletionTimestamp. The hub reads the parent again, in the cluster of the delete or in its own, with its
// CustomResourceDefinition and its Namespace: the parent of a definition or Namespace that is being deleted is no evidence, and the
// deletes count towards the limits.
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

// Tombstone is the evidence of a delete that the module has seen in its source: the event of a deleted object, or an entry
// that says so. revision is the revision of the source at which the object was deleted.
func Tombstone(object, revision string) Evidence {
	e := Evidence{Kind: KindTombstone}
	if object == "" || revision == "" {
		e.Err = errNoTombstone
	}
	return e
}

// Confirmed is the evidence of a person or system that has confirmed the delete, with the id of the confirmation.
func Confirmed(id string) Evidence {
	e := Evidence{Kind: KindConfirmed}
	if id == "" {
		e.Err = errNoID
	}
	return e
}

type evidenceKey struct{}

// OnPurpose returns a context whose deletes are declared: they are not limited. If the evidence does not hold, they are
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

// Owning returns a context for the deletes of a module that owns so many objects of a kind in a cluster, counted before one
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

// CausedBy returns a context for the deletes and creates that one of many things asks for, such as an entity, a rule or a Cluster. Each
// cause has the limits for itself, and a hold of one holds no other; all causes together have five times the limits. The cause must
// exist and have been read: an entity whose revision no longer wants the object, a rule that no longer selects its source. A delete that
// is decided from an absence has no cause, or else a source that looks empty would have as many limits as it had things. A cause is
// shown to operators, so it has no texts of a remote. An empty cause is none.
func CausedBy(ctx context.Context, cause string) context.Context {
	return context.WithValue(ctx, causeKey{}, strings.ToValidUTF8(cause[:min(len(cause), maxCause)], ""))
}

// CauseIn returns the cause that CausedBy was called with, or "".
func CauseIn(ctx context.Context) string {
	cause, _ := ctx.Value(causeKey{}).(string)
	return cause
}
