// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(fleettest.Main(m, fleettest.NoLeaks(
		// A metadata watch that is stopped while an event without a receiver is on its way (controller-runtime, newGVKFixupWatcher).
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))))
}

// patience is the time that a test waits for a condition that takes some seconds.
const patience = 2 * time.Minute

var must, eventually = testkit.Must, testkit.Eventually

func later(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}
