// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

// The reasons of the events that a pair records about upstream objects.
const (
	// ReasonNameConflict is the reason while the name of the copy belongs to an object that is not a copy of the pair.
	ReasonNameConflict = "NameConflict"
	// ReasonContended is the reason while somebody else sets a field of the copy again and again, or while the downstream API
	// server changes it when it is written.
	ReasonContended = "Contended"
	// ReasonRejected is the reason while the downstream API server does not accept the copy.
	ReasonRejected = "Rejected"
	// ReasonStatusReduced is the reason while the upstream schema lacks fields of the status.
	ReasonStatusReduced = "StatusReduced"
	// ReasonWouldWrite is the reason for a write that Options.Observe does not send.
	ReasonWouldWrite = "WouldWrite"
)

// note is an event about the upstream object.
type note struct {
	reason  string
	warning bool
	text    string
}

// Event records an event about the upstream object. The same note about the same object is recorded once an hour at most,
// which is how long the API server keeps events; leave out what differs each time. Nothing of a Secret and no text that was
// read from a cluster belongs in it.
func (s *Session[T]) Event(ctx context.Context, eventType, reason, text string) error {
	return s.notify(ctx, note{reason: reason, warning: eventType == corev1.EventTypeWarning, text: text})
}

// notify records an event about the upstream object, under a name that follows from its content: the API server refuses it
// while it has it already, so that neither a retry nor a restart repeats it.
func (s *Session[T]) notify(ctx context.Context, n note) error {
	r := s.of
	namespace := s.key.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	kind := corev1.EventTypeNormal
	if n.warning {
		kind = corev1.EventTypeWarning
	}
	digest := sha256.Sum256([]byte(strings.Join([]string{r.pair.options.Name, string(s.up.GetUID()), n.reason, n.text}, "\x00")))
	name := s.key.Name + "." + hex.EncodeToString(digest[:8])
	if !r.memory.Tell(name, time.Now()) {
		return nil
	}
	err := s.upstream.Client.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		EventTime:  metav1.NowMicro(), Type: kind, Reason: n.reason, Action: "Sync",
		Note:                object.Shortened(n.text, object.MaxNote),
		ReportingController: r.pair.options.Identity.KeyPrefix + "/" + r.pair.options.Name,
		ReportingInstance:   r.pair.options.Name + "-" + r.syncer.Name(),
		Regarding:           referenceTo(r.kind, s.key, s.up.GetUID()),
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		r.memory.Untold(name)
		return fmt.Errorf("record an event about upstream %s %s: %w", r.kind.Kind, s.key, err)
	}
	return nil
}

func referenceTo(kind schema.GroupVersionKind, key types.NamespacedName, uid types.UID) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: key.Namespace, Name: key.Name, UID: uid,
	}
}

// wouldWrite records a write that is not sent.
func (s *Session[T]) wouldWrite(ctx context.Context, v verb, what string) error {
	return s.notify(ctx, note{reason: ReasonWouldWrite, text: fmt.Sprintf("The pair %s would %s %s.", s.of.pair.options.Name, v, what)})
}

// explain returns what an API server says about an object that it does not accept: the fields in question, and a text that
// is fit for people.
func (p *Pair) explain(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "the request failed"
	}
	var fields []string
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			if cause.Field != "" {
				fields = append(fields, cause.Field)
			}
		}
	}
	text := string(status.Status().Reason)
	if isUndeclared(err) {
		text = "the schema of the kind lacks a field"
	}
	if len(fields) > 0 {
		text += " (" + strings.Join(fields, ", ") + ")"
	}
	if p.options.Quote != nil {
		return p.options.Quote(text + ": " + status.Status().Message)
	}
	return text
}

// laterError is a step that is tried again after a pause. It has been reported.
type laterError struct {
	after time.Duration
	why   string
}

func (e *laterError) Error() string { return fmt.Sprintf("tried again after %s: %s", e.after, e.why) }

// errBehind is the error of a decision that a live read does not confirm.
var errBehind = &laterError{after: conflicted, why: "the cache is behind the API server"}

// later returns an error that repeats the reconcile after a pause, which doubles each time.
func (r *reconciler[T]) later(key types.NamespacedName, why string) error {
	return &laterError{after: r.pauses.When(key), why: why}
}

// calm notes that a copy is as desired.
func (r *reconciler[T]) calm(key types.NamespacedName) { r.pauses.Forget(key) }
