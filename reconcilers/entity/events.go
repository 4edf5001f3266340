// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Event is published on Options.EventSubject. It is also recorded on secondaries and Options.EventsAbout, since a
// primary is no object of Kubernetes.
type Event struct {
	Time    time.Time `json:"time"`
	Cluster string    `json:"cluster"`
	Kind    string    `json:"kind"`
	Key     string    `json:"key"`
	Type    string    `json:"type"` // Normal or Warning
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

type event struct{ kind, action, reason, message string }

func synced(action, message, name string) event {
	return event{kind: corev1.EventTypeNormal, action: action, reason: ReasonSynced, message: fmt.Sprintf(message, name)}
}

// Event records an event of the primary e.Key on obj, which may be nil, on Options.EventsAbout and on
// Options.EventSubject. Time, Cluster and Kind are set; Type defaults to Normal. Events of one reason about one
// version of an object count as one, with the first message. It does not block, and may lose an event.
func (c *Controller[T]) Event(obj client.Object, e Event) {
	c.tell(e.Key, obj, event{kind: cmp.Or(e.Type, corev1.EventTypeNormal), action: "Reconcile", reason: e.Reason, message: e.Message})
}

func (c *Controller[T]) tell(key string, obj client.Object, e event) {
	recorder := c.options.Manager.GetEventRecorder(c.options.Name)
	kind := c.options.Marks.Kind
	if obj != nil {
		recorder.Eventf(obj, nil, e.kind, e.reason, e.action, "%s, for %s %s", e.message, kind, key)
	}
	if anchor := c.options.EventsAbout; anchor != nil {
		recorder.Eventf(anchor, obj, e.kind, e.reason, e.action, "%s, for %s %s", e.message, kind, key)
	}
	if c.options.EventSubject == "" {
		return
	}
	data, err := json.Marshal(Event{
		Time: time.Now().UTC(), Cluster: c.options.Cluster, Kind: kind, Key: key, Type: e.kind, Reason: e.reason, Message: e.message,
	})
	if err == nil {
		err = c.store.bucket.Publish(c.options.EventSubject+"."+key, data)
	}
	if err != nil {
		c.log.V(1).Info("Failed to publish an event", "key", key, "reason", err.Error())
	}
}
