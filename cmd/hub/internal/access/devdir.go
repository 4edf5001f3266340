// SPDX-License-Identifier: Apache-2.0

package access

// Whoever made the current folder is not trusted: it may be a checkout with a folder .hub, and a kubeconfig can name commands to run.
// So other commands read nothing there: a dev leaves a locked record with a copy of its kubeconfig in the user's own cache folder,
// named after the data folder.

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

const (
	// DevDir is below the current folder.
	DevDir = ".hub"
	// LockFile is locked by the process; the record has one of the same name.
	LockFile = "dev.lock"
	// KubeconfigFile has a context for each cluster; the record has a copy.
	KubeconfigFile = "kubeconfig"
)

// DevHub is a running dev.
type DevHub struct {
	// Path is in the data folder, for messages.
	Path       string
	Kubeconfig []byte
}

// FindDev returns the dev of the default folder below the current one, or nil.
func FindDev() *DevHub {
	dir, err := filepath.Abs(DevDir)
	if err != nil {
		return nil
	}
	record, err := recordOf(dir)
	if err != nil || !isPrivate(filepath.Dir(record)) || !isPrivate(record) || !DevHeld(record) {
		return nil
	}
	data, err := readOwn(filepath.Join(record, KubeconfigFile))
	if err != nil {
		return nil
	}
	return &DevHub{Path: filepath.Join(dir, KubeconfigFile), Kubeconfig: data}
}

func recordOf(dir string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder of the user: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	// A folder may have several paths, but for its name: a data folder is no link.
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		dir = filepath.Join(parent, filepath.Base(dir))
	}
	name := sha256.Sum256([]byte(dir))
	return filepath.Join(cache, "clusterfx", "dev", hex.EncodeToString(name[:])), nil
}

// RemoveDev removes the record of a data folder. Only its holder may.
func RemoveDev(dir string) error {
	record, err := recordOf(dir)
	if err != nil {
		return nil //nolint:nilerr // A user without a cache folder has no record.
	}
	return os.RemoveAll(record)
}
