// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Heartbeats of hub parts. They show in the state of the part, and are no reason to give up the lease.

// WatchProgress returns a function that makes the queue of a controller of a hub part, as inner does, and watches its
// progress. heartbeat is a request that no source makes; the reconciler does not see it. Controllers of ctrl.Request
// need no call. For a manager that does not belong to a hub part, it returns inner.
func WatchProgress[request comparable](
	manager ctrl.Manager, controller string, heartbeat request, inner liveness.NewQueue[request],
) liveness.NewQueue[request] {
	m, ok := manager.(*contain.Manager)
	if !ok {
		return inner
	}
	of, ok := m.Manager.(*partManager)
	if !ok || of.part.part.parts.hearts == nil {
		return inner
	}
	return liveness.Wrap(of.part.part.parts.hearts, of.part.subject(controller), heartbeat, inner)
}

// watchProgress watches a controller that the hub part adds, if its requests are ctrl.Requests.
func (l *partLife) watchProgress(controller manager.Runnable, name string) {
	if hearts := l.part.parts.hearts; hearts != nil {
		liveness.Attach(hearts, l.subject(name), controller, liveness.Request())
	}
}

func (l *partLife) subject(controller string) liveness.Subject {
	return liveness.Subject{Module: l.part.entry.name, Controller: controller}
}

// stuck returns the message of the part's state that names the controllers without progress; empty for none.
func (p *hubPart) stuck() string {
	var names []string
	for _, one := range p.parts.hearts.Missed() {
		if one.Stuck && one.Module == p.entry.name {
			names = append(names, one.Controller)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return state.Sanitize("each worker has been in one reconcile for three heartbeats or longer, which is stuck or slow: controller " + strings.Join(names, ", "))
}

// beaten is called when a subject is stuck, and when it has recovered.
func (h *hubParts) beaten(s liveness.Subject) {
	for _, p := range h.all {
		if p.entry.name == s.Module {
			p.changed()
		}
	}
}
