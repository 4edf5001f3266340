// SPDX-License-Identifier: Apache-2.0

//go:build unix

package devdir

import (
	"os"
	"path/filepath"
	"syscall"
)

// Held reports whether a process holds the folder.
func Held(dir string) bool {
	file, err := os.Open(filepath.Join(dir, LockFile))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	return syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// isOwn reports whether a file belongs to the user of this process.
func isOwn(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
