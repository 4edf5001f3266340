// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/devdir"
)

// Names in the data folder.
const (
	lockFile       = devdir.LockFile
	kubeconfigFile = devdir.KubeconfigFile
	logFile        = "hub.log"
	fleetDir       = "fleet"
)

// folder is a data folder that this process has claimed: it holds the lock on a file in it, and has
// signed that (see holder).
type folder struct {
	dir  string
	lock *os.File
}

// advice is what to do about a data folder that cannot be used.
const advice = "choose another folder with --data-dir"

// taken is the error of a folder that somebody else holds.
func taken(dir string) error {
	return fmt.Errorf("process %s runs in %s already: stop it with dev down, or %s", readSignature(dir).pid, dir, advice)
}

// claim makes the folder if need be and takes it. What a dev left there that was killed is removed:
// its clusters died with it.
func claim(dir string) (*folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w; %s", err, advice)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("claim the data folder: %w; %s", err, advice)
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil, errors.Join(taken(dir), lock.Close())
	}
	f := &folder{dir: dir, lock: lock}
	if err := errors.Join(lock.Truncate(0), f.sign(false), f.clear()); err != nil {
		return nil, errors.Join(fmt.Errorf("claim the data folder: %w", err), lock.Close())
	}
	return f, nil
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// clear removes what dev makes, except for the hub's log.
func (f *folder) clear() error {
	return errors.Join(os.RemoveAll(f.path(fleetDir)), os.RemoveAll(f.path(kubeconfigFile)))
}

// release removes what dev made, and the folder if nothing else is in it, and gives it back. The
// log stays if it is still needed.
func (f *folder) release(keepLog bool) error {
	err := f.clear()
	if !keepLog {
		err = errors.Join(err, os.RemoveAll(f.path(logFile)))
	}
	err = errors.Join(err, os.Remove(f.path(lockFile)))
	if left, readErr := os.ReadDir(f.dir); readErr == nil && len(left) == 0 {
		err = errors.Join(err, os.Remove(f.dir))
	}
	return errors.Join(err, f.lock.Close())
}
