// SPDX-License-Identifier: Apache-2.0

package hubobjects_test

import (
	"os"
	"testing"

	"github.com/clusterfx/clusterfx/hubtest"
)

func TestMain(m *testing.M) { os.Exit(hubtest.Main(m)) }
