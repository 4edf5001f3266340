// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"time"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	// startingEvery is how often the remotes that are being started are counted, after a hub has got its lease.
	startingEvery = time.Second
	// calmFor is the number of counts without such remotes after which there is no other one, and startingAtMost the number after
	// which there is none in any case: a few remotes may be unable to start for days.
	calmFor, startingAtMost = 5, 300
)

// starting tells the program how many remotes are being started while a hub that has got its lease starts its fleet.
type starting struct {
	remotes interface{ List() []registry.Status }
	tell    func(remotes int)
}

// NeedLeaderElection returns true: a standby starts nothing.
func (*starting) NeedLeaderElection() bool { return true }

// Start counts until nothing starts any longer, or ctx ends.
func (s *starting) Start(ctx context.Context) error {
	defer s.tell(0)
	tick := time.NewTicker(startingEvery)
	defer tick.Stop()
	for counts, calm := 0, 0; counts < startingAtMost && calm < calmFor; counts++ {
		n := s.count()
		s.tell(n)
		if calm++; n > 0 {
			calm = 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// count returns how many remotes have no app that runs yet, and may have one soon.
func (s *starting) count() int {
	n := 0
	for _, info := range s.remotes.List() {
		if info.State == state.StatePending || info.State == state.StateStarting {
			n++
		}
	}
	return n
}
