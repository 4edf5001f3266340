// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A module may add a controller while it runs, such as for a kind that the remote serves later. App and module stay
// ready meanwhile, and the status has the controller as Starting. If that takes longer than a start may take, the
// module counts as Starting, too.

// isStarting needs the lock.
func (t *tracker) isStarting(p *progress) bool {
	select {
	case <-t.synced:
		return false
	default:
		return p.pending > 0 || !t.started
	}
}

// overdue returns controllers that have waited too long for their initial objects. It needs the lock.
func (t *tracker) overdue(p *progress) []*cache.Controller {
	if p.pending == 0 {
		return nil
	}
	var all []*cache.Controller
	for _, w := range p.controllers {
		if _, synced := w.Progress(); !synced && time.Since(w.Added) >= t.patience {
			all = append(all, w)
		}
	}
	return all
}

// NoteOverdue adds the controllers of a running App that wait too long for their initial objects to its status. The
// others and the leases continue, so the remote stays in its state.
func NoteOverdue(info *state.Status) {
	i := slices.IndexFunc(info.Modules, func(m state.ModuleStatus) bool {
		return m.State == state.ModuleStarting && m.Reason == state.ReasonCacheSyncTimedOut
	})
	if i < 0 || info.App.Status != metav1.ConditionTrue {
		return
	}
	info.App = state.Condition{
		Status: metav1.ConditionFalse, Reason: state.ReasonCacheSyncTimedOut,
		Message: state.Sanitize("module " + strconv.Quote(info.Modules[i].Name) + ": " + info.Modules[i].Message),
	}
	info.Summarize()
}
