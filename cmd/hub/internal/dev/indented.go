// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"bytes"
	"io"
)

// indented puts text of others below our own lines.
type indented struct{ w io.Writer }

// Write expects whole lines.
func (i indented) Write(data []byte) (int, error) {
	lines := bytes.TrimRight(data, "\n")
	_, err := i.w.Write(append([]byte("  "), append(bytes.ReplaceAll(lines, []byte("\n"), []byte("\n  ")), '\n')...))
	return len(data), err
}
