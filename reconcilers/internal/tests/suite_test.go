// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

func TestMain(m *testing.M) { os.Exit(fleettest.Main(m, fleettest.NoLeaks())) }
