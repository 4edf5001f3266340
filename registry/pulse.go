// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"sync"

	"github.com/clusterfx/clusterfx/registry/liveness"
)

// pulse tells probes that the hub itself is starved. Without a monitor it beats from first contact to the end of the root.
type pulse struct {
	*liveness.Pulse
	beat    func() // makes sure that the pulse beats
	beating sync.WaitGroup
}

func (r *Registry) usePulse(m *liveness.Monitor) {
	r.pulse.Pulse, r.pulse.beat = m.Pulse(), func() {}
	if r.pulse.Pulse == nil {
		r.pulse.Pulse = liveness.NewPulse()
		r.pulse.beat = sync.OnceFunc(func() { r.pulse.beating.Go(func() { r.pulse.Run(r.remotes.Apps.Root) }) })
	}
}
