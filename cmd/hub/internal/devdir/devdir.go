// SPDX-License-Identifier: Apache-2.0

// Package devdir knows the data folder of the command dev, and how the other commands find the dev that runs in one. It is
// apart from package dev so that a program without that command finds it, too.
//
// Whoever made the current folder is not trusted: it may be a checkout with a folder .hub, and a kubeconfig can name
// commands to run. So the other commands read nothing in the data folder. A dev leaves a record in the user's own cache
// folder, named after the data folder, holds a lock on a file in it while it runs, and writes a copy of its kubeconfig there.
package devdir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

const (
	// Default is the folder that dev uses, below the current one, unless a flag names another.
	Default = ".hub"
	// LockFile is the file in it that the process holds a lock on. The record has a file of the same name.
	LockFile = "dev.lock"
	// KubeconfigFile is the kubeconfig in it, with a context for each cluster. The record has a copy by the same name.
	KubeconfigFile = "kubeconfig"
)

// Found is a dev that runs.
type Found struct {
	// Path is the path of the kubeconfig in its data folder, for messages.
	Path string
	// Kubeconfig is the kubeconfig in the record of that dev.
	Kubeconfig []byte
}

// Find returns the dev that runs in the default folder below the current one, or nil if none does.
func Find() *Found {
	dir, err := filepath.Abs(Default)
	if err != nil {
		return nil
	}
	record, err := recordOf(dir)
	if err != nil || !isPrivate(filepath.Dir(record)) || !isPrivate(record) || !Held(record) {
		return nil
	}
	data, err := readOwn(filepath.Join(record, KubeconfigFile))
	if err != nil {
		return nil
	}
	return &Found{Path: filepath.Join(dir, KubeconfigFile), Kubeconfig: data}
}

// recordOf returns the folder of the record of a data folder.
func recordOf(dir string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder of the user: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	// One folder may have several paths, but for its name: a data folder is no link.
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		dir = filepath.Join(parent, filepath.Base(dir))
	}
	name := sha256.Sum256([]byte(dir))
	return filepath.Join(cache, "clusterfx", "dev", hex.EncodeToString(name[:])), nil
}

// Remove removes the record of a data folder. Only the process that holds the folder may.
func Remove(dir string) error {
	record, err := recordOf(dir)
	if err != nil {
		return nil //nolint:nilerr // A user without a cache folder has no record.
	}
	return os.RemoveAll(record)
}
