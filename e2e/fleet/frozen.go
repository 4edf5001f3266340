// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Without /proc it uses ps.
func frozen(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		cmd := exec.Command("ps", "-o", "state=", "-p", fmt.Sprint(pid)) //nolint:noctx // it is quick
		state, err := cmd.Output()
		return err == nil && bytes.HasPrefix(bytes.TrimSpace(state), []byte("T"))
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		// The state follows the name of the thread, which is in parentheses and may hold any letter.
		if err == nil && !bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" T")) {
			return false
		}
	}
	return true
}
