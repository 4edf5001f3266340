// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"flag"
	"os"
	"testing"

	"github.com/clusterfx/clusterfx/hubtest"
)

func TestMain(m *testing.M) {
	// These tests wait more than they compute. The flag on the command line wins.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(hubtest.Main(m))
}
