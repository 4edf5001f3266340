// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Heartbeats show in the state of the part, and are no reason to give up the lease.

// WatchProgress is registry.WatchProgress.
func WatchProgress[request comparable](
	manager ctrl.Manager, controller string, heartbeat request, inner liveness.NewQueue[request],
) liveness.NewQueue[request] {
	m, ok := manager.(*contain.Manager)
	if !ok {
		return inner
	}
	of, ok := m.Manager.(*lifeManager)
	if !ok || of.life.part.supervisor.Hearts == nil {
		return inner
	}
	return liveness.Wrap(of.life.part.supervisor.Hearts, of.life.subject(controller), heartbeat, inner)
}

// watchProgress is for ctrl.Requests.
func (l *Run) watchProgress(controller manager.Runnable, name string) {
	if hearts := l.part.supervisor.Hearts; hearts != nil {
		liveness.Attach(hearts, l.subject(name), controller, liveness.Request())
	}
}

func (l *Run) subject(controller string) liveness.Subject {
	return liveness.Subject{Module: l.part.module.Name, Controller: controller}
}

func (p *part) stuck() string {
	var names []string
	for _, one := range p.supervisor.Hearts.Missed() {
		if one.Stuck && one.Module == p.module.Name {
			names = append(names, one.Controller)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return state.Sanitize("each worker has been in one reconcile for three heartbeats or longer, which is stuck or slow: controller " + strings.Join(names, ", "))
}

func (s *Supervisor) beaten(subject liveness.Subject) {
	for _, p := range s.all {
		if p.module.Name == subject.Module {
			p.changed()
		}
	}
}
