// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"cmp"
	"encoding/json"
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

// Event records an event of the primary e.Key on obj, which may be nil, on Options.EventsAbout and on
// Options.EventSubject. Time, Cluster and Kind are set; Type defaults to Normal. Events of one reason about one
// version of an object count as one, with the first message. It does not block, and may lose an event.
func (c *Controller[T]) Event(obj client.Object, e Event) {
	c.tell(obj, "Reconcile", e)
}

func (c *Controller[T]) tell(obj client.Object, action string, e Event) {
	recorder := c.options.Manager.GetEventRecorder(c.options.Name)
	e.Time, e.Cluster, e.Kind, e.Type = time.Now().UTC(), c.options.Cluster, c.options.Marks.Kind, cmp.Or(e.Type, corev1.EventTypeNormal)
	if obj != nil {
		recorder.Eventf(obj, nil, e.Type, e.Reason, action, "%s, for %s %s", e.Message, e.Kind, e.Key)
	}
	if anchor := c.options.EventsAbout; anchor != nil {
		recorder.Eventf(anchor, obj, e.Type, e.Reason, action, "%s, for %s %s", e.Message, e.Kind, e.Key)
	}
	if c.options.EventSubject == "" {
		return
	}
	data, err := json.Marshal(e)
	if err == nil {
		err = c.store.bucket.Publish(c.options.EventSubject+"."+e.Key, data)
	}
	if err != nil {
		c.log.V(1).Info("Failed to publish an event", "key", e.Key, "reason", err.Error())
	}
}
