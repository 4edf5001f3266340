// SPDX-License-Identifier: Apache-2.0

// Package devdir knows the data folder of the command dev: dev keeps it locked while it runs, and the other commands find
// the kubeconfig in it. It is apart from package dev so that a program without that command finds it, too.
package devdir

import (
	"os"
	"path/filepath"
)

const (
	// Default is the folder that dev uses, below the current one, unless a flag names another.
	Default = ".hub"
	// LockFile is the file in it that the process holds a lock on.
	LockFile = "dev.lock"
	// KubeconfigFile is the kubeconfig in it, with a context for each cluster.
	KubeconfigFile = "kubeconfig"
)

// Kubeconfig returns the path of the kubeconfig of the dev that runs in the default folder below the current one, or ""
// if none does. A folder of another user is none: a kubeconfig can name commands to run.
func Kubeconfig() string {
	dir, err := filepath.Abs(Default)
	if err != nil || !isOwn(dir) || !Held(dir) {
		return ""
	}
	path := filepath.Join(dir, KubeconfigFile)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || !isOwn(path) {
		return ""
	}
	return path
}
