// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry/state"
)

// readiness starts when the caches are synced. It knows of no remote: a hub whose remotes are down is healthy.
type readiness struct{ ready atomic.Bool }

var _ manager.LeaderElectionRunnable = (*readiness)(nil)

func (r *readiness) Start(ctx context.Context) error {
	r.ready.Store(true)
	<-ctx.Done()
	r.ready.Store(false)
	return nil
}

// A standby is ready too.
func (r *readiness) NeedLeaderElection() bool { return false }

func (r *readiness) check(*http.Request) error {
	if !r.ready.Load() {
		return errors.New("the caches of the hub are not filled")
	}
	return nil
}

// notRunning is for /readyz?verbose, without messages (the port needs no authentication) and parts that stand by.
func notRunning(parts []state.HubPartStatus) []string {
	var notes []string
	for _, one := range parts {
		if one.State != state.ModuleRunning && one.State != state.ModuleStandby {
			notes = append(notes, fmt.Sprintf("the hub part of module %s is %s (%s)", one.Module, one.State, one.Reason))
		}
	}
	return notes
}
