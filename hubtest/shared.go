// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// suite is the state that the tests of a binary share.
type suite struct {
	prepared sync.Once
	ids      atomic.Int64
	pool     pool
}

var shared suite //nolint:gochecknoglobals // API servers are worth sharing; see the package comment

// prepare configures the process as app.Main does: a panic in a goroutine of client-go does not end the process, and is
// counted against the module whose code panicked. A logger that was set before stays.
func (s *suite) prepare() {
	s.prepared.Do(func() {
		utilruntime.ReallyCrash = false
		utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, registry.CountPanic)
		ctrl.SetLogger(logr.Discard())
	})
}

func (s *suite) nextID() string { return strconv.FormatInt(s.ids.Add(1), 10) }

// fleet returns the fleet of the binary's API servers. It ends with the process, or before.
func (s *suite) fleet(tb testing.TB) *fleet.Fleet {
	tb.Helper()
	return fleettest.Shared(tb)
}
