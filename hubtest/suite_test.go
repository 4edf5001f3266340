// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"os"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
)

func TestMain(m *testing.M) {
	fleettest.AtOnce(4)
	os.Exit(hubtest.Main(m))
}
