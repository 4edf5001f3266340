// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// homeLock is locked by the process that started the fleet, unless it is detached.
const homeLock = "fleet.lock"

type home struct {
	path string
	// temporary is true if the fleet created the folder, and may remove it with its content.
	temporary bool
	// lock is nil in a fleet that was opened or is detached.
	lock *os.File
}

// claimHome removes files of a killed process. It fails if another fleet uses the folder.
func claimHome(o *Options) (*home, error) {
	h := &home{temporary: o.Dir == ""}
	var err error
	if h.temporary {
		o.Dir, err = os.MkdirTemp("", "clusterfx-fleet-")
	} else if o.Dir, err = filepath.Abs(o.Dir); err == nil {
		err = os.MkdirAll(o.Dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("make the fleet's folder: %w", err)
	}
	h.path = o.Dir
	if err := h.acquire(o.Detached); err != nil {
		return nil, err
	}
	return h, nil
}

// acquire locks, if the fleet is to have a lock, and clears the folder.
func (h *home) acquire(detached bool) error {
	lock, err := lockNew(filepath.Join(h.path, homeLock))
	if err != nil {
		return fmt.Errorf("a fleet lives in %s, end the process that started it or use another folder: %w", h.path, err)
	}
	if err := h.clear(); err != nil {
		return errors.Join(err, lock.Close())
	}
	if detached {
		return lock.Close()
	}
	h.lock = lock
	return nil
}

func (h *home) clear() error {
	old, err := readState(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if old.Options.Detached {
		return fmt.Errorf("%s holds a fleet that was left there: open and close it, or use another folder", h.path)
	}
	var names []string
	for _, r := range old.Clusters {
		names = append(names, r.Name)
	}
	again := time.NewTicker(endEvery)
	defer again.Stop()
	for late := time.Now().Add(endPatience); ; <-again.C {
		if err = h.remove(names); err == nil || time.Now().After(late) {
			return err
		}
	}
}

// Processes of a killed parent end a moment after it, and write files until then.
const (
	endEvery    = 50 * time.Millisecond
	endPatience = 10 * time.Second
)

// release removes the files, or keeps them and lets another fleet use the folder.
func (h *home) release(names []string, keep bool) error {
	var err error
	if !keep {
		err = h.remove(append(names, homeLock))
		if left, readErr := os.ReadDir(h.path); readErr == nil && len(left) == 0 {
			err = errors.Join(err, os.Remove(h.path))
		}
	}
	if h.lock != nil {
		err = errors.Join(err, h.lock.Close())
	}
	return err
}

// remove deletes a fleet's files, and nothing else in the folder.
func (h *home) remove(names []string) error {
	var errs []error
	for _, name := range append(names, stateFile, etcdDir) {
		errs = append(errs, os.RemoveAll(filepath.Join(h.path, name)))
	}
	return errors.Join(errs...)
}
