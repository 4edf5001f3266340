// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"os"
	"runtime/debug"
	"strings"
)

// replaceName replaces each %s.
func (p Program) replaceName(text string) string { return strings.ReplaceAll(text, "%s", p.Name) }

// self runs this program again: its name, or the go run that has built it and will remove it.
func self(name string) string {
	path, err := os.Executable()
	info, ok := debug.ReadBuildInfo()
	if err == nil && ok && strings.Contains(path, "/go-build") && info.Path != "" && !strings.HasSuffix(path, ".test") {
		return "go run " + info.Path
	}
	return name
}
