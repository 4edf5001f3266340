// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A hub with the tag nodev does not import the packages of the command dev.
func TestNoDev(t *testing.T) {
	t.Parallel()
	for tags, want := range map[string]bool{"nodev": false, "": true} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags="+tags, "..")
		out, err := cmd.Output()
		must(t, err)
		for _, pkg := range []string{"sigs.k8s.io/kind/pkg/cluster", "github.com/clusterfx/clusterfx/e2e/fleet", "github.com/nats-io/nats-server/v2/server"} {
			if got := strings.Contains(string(out), pkg+"\n"); got != want {
				t.Errorf("with tags %q, the hub imports %s: %v", tags, pkg, got)
			}
		}
	}
}
