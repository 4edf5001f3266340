// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/memory"
)

// Reasons of the events about upstream objects.
const (
	// ReasonNameConflict: an object that is no copy of the pair has the name.
	ReasonNameConflict = "NameConflict"
	// ReasonContended: a client, or the API server, changes a field of the copy repeatedly.
	ReasonContended = "Contended"
	// ReasonRejected: the downstream API server does not accept the copy.
	ReasonRejected = "Rejected"
	// ReasonNamespaceMissing: the Namespace of the copy does not exist.
	ReasonNamespaceMissing = "NamespaceMissing"
	// ReasonUndeclared is no event, but the Reason of an Outcome: the downstream schema lacks a field.
	ReasonUndeclared = "Undeclared"
	// ReasonStatusReduced: the upstream schema lacks fields of the status.
	ReasonStatusReduced = "StatusReduced"
	// ReasonWouldWrite: a write that Options.Observe does not send.
	ReasonWouldWrite = "WouldWrite"
)

// Event records an event about the upstream object, the same text once an hour at most: leave out what differs each
// time. A text must contain nothing of a Secret, and nothing that was read from a cluster. It is named by its content, so that the API
// server refuses a repetition, after a restart too.
func (s *Session[T]) Event(ctx context.Context, eventType, reason, text string) error {
	r := s.of
	if eventType == corev1.EventTypeWarning {
		s.problem = reason
	}
	cluster := r.pair.cluster()
	digest := sha256.Sum256([]byte(strings.Join([]string{r.pair.options.Name, string(s.up.GetUID()), cluster, reason, text}, "\x00")))
	name := object.EventName(s.key.Name, hex.EncodeToString(digest[:8]))
	if !r.memory.Tell(name) {
		return nil
	}
	var related *corev1.ObjectReference
	if cluster != "" {
		text = "Cluster " + cluster + ": " + text
		related = &corev1.ObjectReference{APIVersion: hubv1.GroupVersion.String(), Kind: "Cluster", Name: cluster}
	}
	giveBack, isLast := r.pair.events.take(reason, time.Now())
	if giveBack == nil {
		r.memory.Untold(name)
		r.log.V(1).Info("Left out an event", "object", s.key.String(), "reason", reason, "note", text)
		return nil
	}
	if isLast {
		text = object.Shortened(text, object.MaxNote-len(lastEvent)) + lastEvent
	}
	err := s.upstream.Client.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: cmp.Or(s.key.Namespace, metav1.NamespaceDefault), Name: name},
		EventTime:  metav1.NowMicro(), Type: eventType, Reason: reason, Action: "Sync",
		Note:                object.Shortened(text, object.MaxNote),
		ReportingController: r.pair.options.Identity.KeyPrefix + "/" + r.pair.options.Name,
		ReportingInstance:   r.pair.options.Name + "-" + r.syncer.Name(),
		Regarding: corev1.ObjectReference{
			APIVersion: r.kind.GroupVersion().String(), Kind: r.kind.Kind, Namespace: s.key.Namespace, Name: s.key.Name, UID: s.up.GetUID(),
		},
		Related: related,
	})
	if apierrors.IsAlreadyExists(err) {
		giveBack() // as after a restart
		return nil
	}
	if err != nil {
		r.memory.Untold(name)
		return fmt.Errorf("record an event about upstream %s %s: %w", r.kind.Kind, s.key, err)
	}
	return nil
}

// Of one reason a pair records ten events in ten minutes at most, five of them at once: a rule that fails for each of its
// objects would fill etcd.
const (
	maxEvents  = 5
	eventEvery = 2 * time.Minute
	lastEvent  = " Further events of this reason are left out for some minutes."
)

// events are limits by reason.
type events struct{ sync.Map }

// take returns how to give an event back, nil if there may be none, and whether it is the last one for now.
func (e *events) take(reason string, now time.Time) (giveBack func(), isLast bool) {
	known, _ := e.LoadOrStore(reason, rate.NewLimiter(rate.Every(eventEvery), maxEvents))
	limit := known.(*rate.Limiter) //nolint:forcetypeassert // It is the only writer.
	turn := limit.ReserveN(now, 1)
	if turn.DelayFrom(now) > 0 {
		turn.CancelAt(now)
		return nil, false
	}
	return func() { turn.CancelAt(now) }, limit.TokensAt(now) < 1
}

func (s *Session[T]) wouldWrite(ctx context.Context, v verb, what string) error {
	return s.Event(ctx, corev1.EventTypeNormal, ReasonWouldWrite, fmt.Sprintf("The pair %s would %s %s.", s.of.pair.options.Name, v, what))
}

func (p *Pair) explain(err error) string {
	class, refused := object.Refusal(err)
	if !refused {
		return "the request failed"
	}
	if isUndeclared(err) {
		class += ": the schema of the kind lacks a field"
	}
	var answer apierrors.APIStatus
	if p.options.Quote != nil && errors.As(err, &answer) {
		return p.options.Quote(class + ": " + answer.Status().Message)
	}
	return class
}

type writeError struct {
	what string // such as: delete downstream Secret ns/x
	err  error
}

func (e *writeError) Error() string { return e.what + ": " + e.err.Error() }

func (e *writeError) Unwrap() error { return e.err }

// noteFailure reports a LaterError with a Reason, and a write that is refused repeatedly: nothing else shows that a copy or a status is old.
func (s *Session[T]) noteFailure(ctx context.Context, err error) {
	if err == nil {
		if s.of.memory.Of(s.key).Refused > 0 {
			s.of.memory.Change(s.key, func(o *memory.Object) { o.Refused = 0 })
		}
		return
	}
	if both, ok := errors.AsType[*bothError](err); ok {
		s.noteFailure(ctx, both.down)
		s.noteFailure(ctx, both.up)
		return
	}
	told := s.noteRefusal(ctx, err)
	if later, ok := errors.AsType[*LaterError](err); ok && later.Reason != "" {
		told = s.Event(ctx, corev1.EventTypeWarning, later.Reason, later.Why)
	}
	if told != nil {
		s.of.log.V(1).Info("Failed to record an event", "object", s.key.String(), "reason", told.Error())
	}
}

func (s *Session[T]) noteRefusal(ctx context.Context, err error) error {
	var write *writeError
	class, refused := object.Refusal(err)
	if !refused || !errors.As(err, &write) {
		return nil
	}
	s.of.memory.Change(s.key, func(o *memory.Object) { o.Refused++ })
	if s.of.memory.Of(s.key).Refused < object.Failures || s.facts.up == absent {
		return nil
	}
	reason := ReasonRejected
	if object.LacksNamespace(err) {
		reason, class = ReasonNamespaceMissing, "create the Namespace"
	}
	return s.Event(ctx, corev1.EventTypeWarning, reason, "Failed repeatedly to "+write.what+": "+class)
}

// LaterError is an error that is tried again after a pause, without an entry in the log. With a Reason it becomes a warning about the upstream
// object; see Session.Event.
type LaterError struct {
	After  time.Duration
	Reason string
	Why    string // the text of the event
}

// Error says why, too.
func (e *LaterError) Error() string { return fmt.Sprintf("tried again after %s: %s", e.After, e.Why) }

// errBehind: a live read does not confirm the decision.
var errBehind = &LaterError{After: conflicted, Why: "the cache is behind the API server"}

// fight fails if another client has changed a field too often. It counts if it differs although the pair has sent the same before.
func (s *Session[T]) fight(field, what string, before, sent uint64) error {
	if before != sent {
		return nil
	}
	r := s.of
	pause := r.memory.Flip(s.key, field, time.Now())
	if pause == 0 {
		return nil
	}
	r.pair.metrics.contended(r.kind.Kind)
	return &LaterError{After: pause, Reason: ReasonContended, Why: fmt.Sprintf(
		"Another client changes %s each time that the pair writes it; the pair writes it less often. "+
			"Exclude the field from the pair, or keep the other client from writing it.", what)}
}
