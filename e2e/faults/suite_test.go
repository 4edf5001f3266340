// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

func TestMain(m *testing.M) {
	if os.Getenv(asHub) != "" {
		os.Exit(mainOfHub()) //nolint:forbidigo // This process is a hub and no test.
	}
	ctrl.SetLogger(logr.Discard())
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, registry.CountPanic)
	fleettest.AtOnce(12)
	code := fleettest.Main(m, fleettest.NoLeaks(
		// A metadata watch that is stopped while it sends an event that no receiver reads: one per hub that ends
		// (controller-runtime, newGVKFixupWatcher).
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop")))
	if err := printFigures(); err != nil {
		panic(err)
	}
	os.Exit(code) //nolint:forbidigo // This is a main.
}

// patience is the timeout for events that are not measured.
const patience = 3 * time.Minute

// Bounds that the project promises for a remote that fails and recovers.
const (
	detectRefused = 10 * time.Second
	detectSilent  = 20 * time.Second
	recovered     = 10 * time.Second
)
