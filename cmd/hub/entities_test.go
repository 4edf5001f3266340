// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// The commands of docs/entities.md print what the page says: from nothing to a tenant in a remote, with its status from there.
func TestDev_EntitiesPage(t *testing.T) {
	t.Parallel()
	steps, dir := stepsIn(t, "entities.md", "## From nothing to a tenant")
	arguments := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(steps[0].command, "go run ./cmd/hub"), "--detach"))
	startIn(t, dir, []string{asHub + "=" + asStock}, arguments...).expectSteps(dir, steps)
}
