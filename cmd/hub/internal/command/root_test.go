// SPDX-License-Identifier: Apache-2.0

package command

import (
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A program whose name begins with kubectl- is named as a command of kubectl.
func TestProgram_Name(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/bin/hub":               "hub",
		"/opt/my-hub":                "my-hub",
		"/usr/bin/kubectl-clusterfx": "kubectl clusterfx",
		"/usr/bin/kubectl-my_fleet":  "kubectl my-fleet",
		"kubectl":                    "kubectl",
	} {
		testkit.Equal(t, (Program{Args: []string{path}}).name(), want, "the name of", path)
	}
}
