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

// readiness reports whether the hub can work, or take over. It is a runnable:
// the manager starts runnables that need no lease when the caches are synced. It knows of
// no remote, since a hub whose remotes are down is a healthy hub.
type readiness struct{ ready atomic.Bool }

var _ manager.LeaderElectionRunnable = (*readiness)(nil)

// Start notes that the caches are filled, and waits for the end.
func (r *readiness) Start(ctx context.Context) error {
	r.ready.Store(true)
	<-ctx.Done()
	r.ready.Store(false)
	return nil
}

// NeedLeaderElection is false: a standby is ready too.
func (r *readiness) NeedLeaderElection() bool { return false }

func (r *readiness) check(*http.Request) error {
	if !r.ready.Load() {
		return errors.New("the caches of the hub are not filled")
	}
	return nil
}

// notRunning names the hub parts that do not run as they should, for /readyz?verbose: a hub is ready even if a hub part does
// not run. The message of a state is left out, since the port needs no authentication. A hub part that waits for the leadership is
// as it should be.
func notRunning(parts []state.HubPartStatus) []string {
	var notes []string
	for _, one := range parts {
		if one.State != state.ModuleRunning && one.State != state.ModuleStandby {
			notes = append(notes, fmt.Sprintf("the hub part of module %s is %s (%s)", one.Module, one.State, one.Reason))
		}
	}
	return notes
}
