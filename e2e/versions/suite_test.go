// SPDX-License-Identifier: Apache-2.0

package versions_test

import (
	"flag"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

var (
	writes  = flag.Bool("write", false, "write the table of docs/operating.md")
	release = flag.String("release", "", "the tag, or commit, of the release before this one")
)

var must = testkit.Must

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(1) // Each test has many API servers.
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}
