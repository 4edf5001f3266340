// SPDX-License-Identifier: Apache-2.0

package versions_test

import (
	"flag"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules"
)

var (
	writes  = flag.Bool("write", false, "write the table of docs/operating.md")
	release = flag.String("release", "", "the tag, or commit, of the release before this one")
)

var must = testkit.Must

// variable makes a process of this program the stock hub.
const variable = "CLUSTERFX_VERSIONS_HUB"

// present is the program of a hub of this commit: this one.
func present(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return self
}

func TestMain(m *testing.M) {
	if os.Getenv(variable) != "" {
		os.Exit(app.Main(modules.All()...)) //nolint:forbidigo // This process is a hub and no test.
	}
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(1) // Each test has many API servers.
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}
