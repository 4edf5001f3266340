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

// The progress of controllers shows in the state of the part, and is no reason to give up the lease.

// WatchProgress is registry.WatchProgress.
func WatchProgress[request comparable](m ctrl.Manager, controller string, inner liveness.NewQueue[request]) liveness.NewQueue[request] {
	contained, ok := m.(*contain.Manager)
	if !ok {
		return inner
	}
	of, ok := contained.Manager.(*lifeManager)
	if !ok {
		return inner
	}
	return liveness.Wrap(of.life.part.supervisor.Monitor, of.life.subject(controller), inner)
}

// watchProgress is for ctrl.Requests.
func (l *Run) watchProgress(controller manager.Runnable, name string) {
	liveness.Attach[ctrl.Request](l.part.supervisor.Monitor, l.subject(name), controller)
}

func (l *Run) subject(controller string) liveness.Subject {
	return liveness.Subject{Module: l.part.module.Name, Controller: controller}
}

func (p *part) stuck() string {
	names := p.supervisor.Monitor.Stuck(p.module.Name)
	if len(names) == 0 {
		return ""
	}
	return state.Sanitize("work waits, and no worker has asked for more for 30 s: each is in a reconcile that is stuck or slow: controller " +
		strings.Join(names, ", "))
}

func (s *Supervisor) progress(subject liveness.Subject) {
	for _, p := range s.all {
		if p.module.Name == subject.Module {
			p.changed()
		}
	}
}
