// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// Main runs a package's tests, stops the API servers, checks for leaked goroutines of the tests too, and returns the
// exit code:
//
//	func TestMain(m *testing.M) { os.Exit(hubtest.Main(m)) }
//
// Without it API servers end with the process, and only goroutines of hubs are checked.
func Main(m *testing.M, options ...goleak.Option) int {
	prepareProcess()
	return fleettest.Main(m, fleettest.NoLeaks(append(options, goleak.IgnoreTopFunction(filteredWatch))...))
}
