// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
)

// binary builds the program if it is missing, and returns its path in Go's cache. go.mod has its version, since the command dev
// runs the same server.
var binary = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // The program is built once.
	path, err := exec.Command("go", "tool", "-n", "nats-server").Output() // Without a context: it is for all tests of the process.
	if err != nil {
		return "", fmt.Errorf("build nats-server: %w", err)
	}
	return strings.TrimSpace(string(path)), nil
})
