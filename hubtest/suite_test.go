// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"os"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/hubtest"
)

func TestMain(m *testing.M) {
	_ = os.Unsetenv(pool.Socket) // The tests see the pool of one test program, as those of a module's author do.
	fleettest.AtOnce(3)
	os.Exit(hubtest.Main(m))
}
