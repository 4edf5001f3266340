// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// The programs of this repository continue after a panic that Kubernetes' libraries handle.
func TestMain(m *testing.M) {
	utilruntime.ReallyCrash = false
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

var must = testkit.Must
