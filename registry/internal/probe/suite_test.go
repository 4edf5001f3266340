// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = testkit.Must
