// SPDX-License-Identifier: Apache-2.0

// Package tests has the tests of the small packages of the registry, from outside of them: one program takes less time to link than
// twenty. A file is named after the package that it tests.
package tests

import (
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// The programs of this repository continue after a panic that Kubernetes' libraries handle.
func TestMain(m *testing.M) {
	utilruntime.ReallyCrash = false
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}
