// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/fieldset"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/memory"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// ApplyStatus applies the status of from, usually the copy, to the upstream object, if it differs. Without a status
// subresource the object is written. Fields that the upstream schema lacks are left out and reported.
func (s *Session[T]) ApplyStatus(ctx context.Context, from T) error {
	r := s.of
	source, err := object.Fields(from)
	if err != nil {
		return err
	}
	status, ok := source["status"].(map[string]any)
	if !ok || s.facts.up == absent {
		return nil
	}
	now, err := object.Fields(s.up)
	if err != nil {
		return err
	}
	known, _ := now["status"].(map[string]any)
	if s.facts.down != absent && !s.facts.imported && from.GetUID() == s.down.GetUID() {
		s.generations(from).inMap(status, known)
	}
	had, sent := r.memory.Digest(known), r.memory.Digest(status)
	if had == sent || s.statusWritten(known, status, had, sent) {
		return nil
	}
	if wait := s.statusWait(time.Now()); wait > 0 {
		return &LaterError{After: wait, Why: "the status was written a moment ago"}
	}
	what := fmt.Sprintf("the status of upstream %s %s", r.kind.Kind, s.key)
	if err := s.fight("status", what, r.memory.Of(s.key).Wrote.Status.Sent, sent); err != nil {
		return err
	}
	if r.options.Observe {
		return s.wouldWrite(ctx, verbUpdate, "the status")
	}
	made, err := s.sendStatus(ctx, status)
	if isUndeclared(err) {
		if made, err = s.sendDeclared(ctx, status); err == nil {
			err = s.Event(ctx, corev1.EventTypeWarning, ReasonStatusReduced, fmt.Sprintf(
				"The upstream schema of %s lacks fields that the status of the copy has; the other fields are brought back.", r.kind.Kind))
		}
	}
	r.pair.metrics.write(r.kind.Kind, directionUp, verbUpdate, err)
	if err != nil {
		return &writeError{"write " + what, err}
	}
	made.Sent, made.Before, made.At = sent, memory.Revision(s.up.GetResourceVersion()), time.Now()
	if made.Made == made.Before {
		made.Kept = had
	}
	r.memory.Change(s.key, func(o *memory.Object) { o.Wrote.Status = made })
	return nil
}

const (
	// statusEvery is the time between two writes of the status of one original.
	statusEvery = time.Second
	// statusRate and statusBurst bound the status writes of one remote, per second and at once. The first write for
	// an original does not count, so that many new copies take no longer.
	statusRate, statusBurst = 5, 5
)

// NewStatusLimiter returns the limiter for PairOptions.StatusLimiter.
func NewStatusLimiter() *rate.Limiter { return rate.NewLimiter(statusRate, statusBurst) }

// statusWait returns for how long the status must not be written: a remote may change it at any rate.
func (s *Session[T]) statusWait(now time.Time) time.Duration {
	last := s.of.memory.Of(s.key).Wrote.Status
	if last.At.IsZero() {
		return 0
	}
	if wait := statusEvery - now.Sub(last.At); wait > 0 {
		return min(wait, statusEvery) // The clock may be set back.
	}
	if last.Due.IsZero() {
		last.Due = now.Add(s.of.pair.options.StatusLimiter.ReserveN(now, 1).DelayFrom(now))
		s.of.memory.Change(s.key, func(o *memory.Object) { o.Wrote.Status.Due = last.Due })
	}
	return last.Due.Sub(now)
}

// statusWritten reports whether the last write needs no other: the upstream object has it, its API server has dropped
// the rest, or the cache has not seen it yet.
func (s *Session[T]) statusWritten(now, status map[string]any, had, sent uint64) bool {
	last := s.of.memory.Of(s.key).Wrote.Status
	switch {
	case last.Sent != sent:
		return false
	case last.Kept == had:
		return true
	case last.Before == memory.Revision(s.up.GetResourceVersion()) && time.Since(last.At) < memory.StaleFor:
		return true
	case last.Declared != nil:
		status = last.Declared
	}
	_, contained := fieldset.Contains(now, status)
	return contained
}

// sendStatus applies to the subresource, or to the object if the kind has none.
func (s *Session[T]) sendStatus(ctx context.Context, status map[string]any) (memory.StatusWrite, error) {
	r := s.of
	owner := client.FieldOwner(r.pair.fieldManager(directionUp))
	if !r.noStatus.Load() {
		applied := s.withStatus(status)
		err := s.upstream.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), owner, client.ForceOwnership)
		if !apierrors.IsNotFound(err) {
			return memory.StatusWrite{Made: memory.Revision(applied.GetResourceVersion())}, err
		}
		if err := s.upstream.Live.Get(ctx, s.key, newObject[T](r.kind)); err != nil {
			return memory.StatusWrite{}, client.IgnoreNotFound(err)
		}
		r.noStatus.Store(true)
	}
	applied := s.withStatus(status)
	err := s.upstream.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), owner, client.ForceOwnership)
	return memory.StatusWrite{Made: memory.Revision(applied.GetResourceVersion())}, err
}

// sendDeclared applies the fields that the upstream schema has. An API server refuses to apply others, and drops them
// from a merge patch: a dry run shows which.
func (s *Session[T]) sendDeclared(ctx context.Context, status map[string]any) (memory.StatusWrite, error) {
	answer := s.withStatus(nil)
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.up.GetUID()}, "status": status})
	if err != nil {
		return memory.StatusWrite{}, err
	}
	patch := client.RawPatch(types.MergePatchType, body)
	if s.of.noStatus.Load() {
		err = s.upstream.Client.Patch(ctx, answer, patch, client.DryRunAll)
	} else {
		err = s.upstream.Client.Status().Patch(ctx, answer, patch, client.DryRunAll)
	}
	if err != nil {
		return memory.StatusWrite{}, fmt.Errorf("find the fields that the schema has: %w", err)
	}
	has, _ := answer.Object["status"].(map[string]any)
	declared := fieldset.Common(status, has)
	made, err := s.sendStatus(ctx, declared)
	made.Declared = declared
	return made, err
}

func (s *Session[T]) withStatus(status map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetGroupVersionKind(s.of.kind)
	u.SetNamespace(s.key.Namespace)
	u.SetName(s.key.Name)
	u.SetUID(s.up.GetUID())
	return u.DeepCopy()
}

// isUndeclared reports a refusal because of a field that the schema lacks. The API server has no reason for it:
// managedfields/internal/structuredmerge.go of apimachinery returns a plain error.
func isUndeclared(err error) bool {
	var status apierrors.APIStatus // of a client that is not one of the hub
	return apierrors.HasStatusCause(err, kubeconfig.CauseUndeclared) ||
		errors.As(err, &status) && strings.Contains(status.Status().Message, "field not declared in schema")
}
