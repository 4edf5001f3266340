// SPDX-License-Identifier: Apache-2.0

package hubcontroller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry/eventseries"
)

// Event is an event about a part of an object.
type Event struct {
	Type, Reason string
	Part         string // empty for the whole object
	Note         string
}

// Normal returns an event about an expected change.
func Normal(reason, part, note string) Event {
	return Event{Type: corev1.EventTypeNormal, Reason: reason, Part: part, Note: note}
}

// Warning returns an event about a problem.
func Warning(reason, part, note string) Event {
	return Event{Type: corev1.EventTypeWarning, Reason: reason, Part: part, Note: note}
}

// Recorder records events.
type Recorder struct {
	events.EventRecorder
	Scheme *runtime.Scheme
}

// NewRecorder returns a recorder of events of the hub.
func NewRecorder(mgr ctrl.Manager) Recorder {
	return Recorder{eventseries.ByNote(mgr.GetEventRecorder(FieldManager), mgr.GetScheme()), mgr.GetScheme()}
}

const eventAction = "Reconcile"

// Record records an event about an object.
func (r Recorder) Record(about runtime.Object, t Event) {
	r.Eventf(object.InAnyVersion(r.Scheme, about, t.Part), nil, t.Type, t.Reason, eventAction, "%s", object.Shortened(t.Note, object.MaxNote))
}
