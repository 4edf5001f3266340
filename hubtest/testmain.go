// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// Main runs the tests of a package, stops the API servers, looks for goroutines that are left, also
// those of the tests themselves, and returns what to exit with:
//
//	func TestMain(m *testing.M) { os.Exit(hubtest.Main(m)) }
//
// A package can do without. Its API servers end with the process then, and only the goroutines of hubs
// are looked for.
func Main(m *testing.M, options ...goleak.Option) int {
	shared.prepare()
	return fleettest.Main(m, fleettest.NoLeaks(append(options, goleak.IgnoreTopFunction(filteredWatch))...))
}
