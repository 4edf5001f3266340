// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

// signature is what the holder writes into the locked file.
type signature struct {
	pid   string
	ready bool // everything is up
}

const readyWord = "ready"

func (f *folder) sign(ready bool) error {
	text := strconv.Itoa(os.Getpid()) + "\n"
	if ready {
		text += readyWord + "\n"
	}
	_, err := f.lock.WriteAt([]byte(text), 0)
	return err
}

// The last holder may have ended.
func readSignature(dir string) signature {
	data, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil {
		return signature{}
	}
	pid, rest, _ := strings.Cut(string(data), "\n")
	return signature{pid: pid, ready: strings.TrimSpace(rest) == readyWord}
}

func held(dir string) bool { return access.DevHeld(dir) }

// holder returns nil if there is none. The process id in the file may be unrelated by now; but if the folder is still
// held after the handle was taken, then the handle is the holder's.
func holder(dir string) (*os.Process, error) {
	if !held(dir) {
		return nil, nil
	}
	pid, err := strconv.Atoi(readSignature(dir).pid)
	if err != nil {
		return nil, fmt.Errorf("read who holds %s: %w", dir, err)
	}
	process, err := os.FindProcess(pid)
	if err != nil || !held(dir) {
		return nil, err
	}
	return process, nil
}
