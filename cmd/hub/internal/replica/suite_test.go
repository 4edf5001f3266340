// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"os"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestMain(m *testing.M) {
	fleettest.AtOnce(6)
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

const (
	// patience is the time that a test waits for a condition that takes some seconds on an idle machine.
	patience = 2 * time.Minute
	// fewShards is the number of shards of most tests.
	fewShards = 16
)

// quick is a timing for tests. A replica that is starved for longer than the deadline loses its Lease, which is correct: the
// tests assert safety always, and wait for the rest.
func quick() shards.Timing {
	return shards.Timing{Duration: 3 * time.Second, Deadline: 2 * time.Second, Retry: 400 * time.Millisecond}
}

var must, eventually = testkit.Must, testkit.Until
