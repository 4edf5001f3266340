// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Names in the data folder.
const (
	lockFile       = "dev.lock"
	kubeconfigFile = "kubeconfig"
	logFile        = "hub.log"
	ignoreFile     = ".gitignore"          // The folder has keys of administrators.
	accountFile    = "replicas.kubeconfig" // of the account of the hub, for its replicas
	fleetDir       = "fleet"
)

// folder is a claimed data folder: this process has locked a file in it, and signed that (see holder).
type folder struct {
	dir  string
	lock *os.File
}

const advice = "choose another folder with --data-dir"

func taken(dir string) error {
	return fmt.Errorf("process %s runs in %s already: stop it with dev down, or %s", readSignature(dir).pid, dir, advice)
}

// claim creates and locks the folder, and removes the files of a killed dev, whose clusters died with it. It refuses
// links: in a checkout one could lead writes to any file of the user.
func claim(dir string) (*folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w; %s", err, advice)
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s is no folder but a link: %s", dir, advice), err)
	}
	lock, err := openNoLink(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("claim the data folder: %w; %s", err, advice)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(taken(dir), lock.Close())
	} else if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data folder: %w; %s", err, advice), lock.Close())
	}
	f := &folder{dir: dir, lock: lock}
	if err := errors.Join(lock.Truncate(0), f.sign(false), f.clear(), f.writeNew(ignoreFile, []byte("*\n"))); err != nil {
		return nil, errors.Join(fmt.Errorf("claim the data folder: %w", err), lock.Close())
	}
	return f, nil
}

func openNoLink(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
}

func (f *folder) writeNew(name string, text []byte) error {
	file, err := openNoLink(f.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// clear leaves the hub's log.
func (f *folder) clear() error {
	return errors.Join(os.RemoveAll(f.path(fleetDir)), os.RemoveAll(f.path(natsDir)), os.RemoveAll(f.path(kubeconfigFile)),
		os.RemoveAll(f.path(accountFile)), os.RemoveAll(f.path(ignoreFile)))
}

// release removes the files, and the folder if it is empty then. The log stays if it is still needed.
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

// held reports whether a process holds the folder.
func held(dir string) bool {
	lock, err := openNoLink(filepath.Join(dir, lockFile), os.O_RDONLY)
	if err != nil {
		return false
	}
	defer func() { _ = lock.Close() }()
	return errors.Is(syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

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
