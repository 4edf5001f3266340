// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"fmt"
	"strings"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

// indented puts text of others below our own lines.
type indented struct{ t *output.Terminal }

// Write expects whole lines.
func (i indented) Write(data []byte) (int, error) {
	i.t.Text("  %s", strings.ReplaceAll(strings.TrimRight(string(data), "\n"), "\n", "\n  "))
	return len(data), nil
}

func since(begin time.Time) string { return fmt.Sprintf("%.1fs", time.Since(begin).Seconds()) }

func number(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
