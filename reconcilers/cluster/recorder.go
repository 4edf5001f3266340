// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
)

// transition is a change that is worth an event.
type transition struct {
	kind, reason string
	part         string // of the object, that it is about; empty for all of it
	note         string
}

// normal returns an event about what is in order.
func normal(reason, part, note string) transition {
	return transition{kind: corev1.EventTypeNormal, reason: reason, part: part, note: note}
}

// warning returns an event about what is not in order.
func warning(reason, part, note string) transition {
	return transition{kind: corev1.EventTypeWarning, reason: reason, part: part, note: note}
}

// recorder records events.
type recorder struct {
	events.EventRecorder
	scheme *runtime.Scheme
}

func newRecorder(mgr ctrl.Manager) recorder {
	return recorder{registry.DistinctNotes(mgr.GetEventRecorder(FieldManager), mgr.GetScheme()), mgr.GetScheme()}
}

// eventAction is what all events are about, in the words of the API of events.
const eventAction = "Reconcile"

// tell records an event about an object.
func (r recorder) tell(about runtime.Object, t transition) {
	r.Eventf(object.InAnyVersion(r.scheme, about, t.part), nil, t.kind, t.reason, eventAction, "%s", object.Shortened(t.note, object.MaxNote))
}
