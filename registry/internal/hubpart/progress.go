// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"strings"

	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The progress of controllers shows in the state of the part, and is no reason to give up the lease.

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
