// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"os"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(fleettest.Main(m, fleettest.NoLeaks())) }

var must = testkit.Must
