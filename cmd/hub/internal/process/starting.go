// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"time"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	startingEvery = time.Second // startingEvery is between counts.
	// After calmFor counts without starting remotes there are no others; startingAtMost, since a few may not start for days.
	calmFor, startingAtMost = 5, 300
)

type starting struct {
	remotes interface{ List() []registry.Status }
	tell    func(remotes int)
}

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

// count includes remotes that may have an app soon.
func (s *starting) count() int {
	n := 0
	for _, info := range s.remotes.List() {
		if info.State == state.StatePending || info.State == state.StateStarting {
			n++
		}
	}
	return n
}
