// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
	"github.com/clusterfx/clusterfx/registry/state"
)

// site has what the hub serves about itself. It knows of no remote: a hub whose remotes are down is healthy.
type site struct {
	*serving.Checks
	filled atomic.Bool // the caches are
}

var _ manager.LeaderElectionRunnable = (*site)(nil)

func newSite() *site {
	s := &site{Checks: serving.NewChecks(ctrlmetrics.Registry)}
	_ = s.AddReadyzCheck("caches", func(*http.Request) error { // It never fails.
		if !s.filled.Load() {
			return errors.New("the caches of the hub are not filled")
		}
		return nil
	})
	return s
}

// Start is called when the caches are synced.
func (s *site) Start(ctx context.Context) error {
	s.filled.Store(true)
	<-ctx.Done()
	s.filled.Store(false)
	return nil
}

// NeedLeaderElection is false: a standby is ready, too.
func (s *site) NeedLeaderElection() bool { return false }

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
