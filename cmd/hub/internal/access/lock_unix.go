// SPDX-License-Identifier: Apache-2.0

//go:build unix

package access

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// maxKubeconfig is more than the kubeconfig of as many clusters as a dev has.
const maxKubeconfig = 4 << 20

// DevHeld reports whether a process holds the folder. A lock that is a link, or another user's, does not count.
func DevHeld(dir string) bool {
	file, err := openOwn(filepath.Join(dir, LockFile))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	return errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// PublishDev makes the record of a data folder that this process holds, until the result is closed or the process ends.
func PublishDev(dir string, kubeconfig []byte) (io.Closer, error) {
	record, err := recordOf(dir)
	if err != nil {
		return nil, err
	}
	root := filepath.Dir(record)
	if err := errors.Join(os.MkdirAll(root, 0o700), os.RemoveAll(record)); err != nil {
		return nil, err
	}
	if !isPrivate(root) {
		return nil, fmt.Errorf("%s is not a folder that only you may use: remove it", root)
	}
	if err := os.Mkdir(record, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(record, LockFile), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(record, KubeconfigFile), kubeconfig, 0o600); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func readOwn(path string) ([]byte, error) {
	file, err := openOwn(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, maxKubeconfig))
}

// openOwn follows no link.
func openOwn(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && (!info.Mode().IsRegular() || !isOwn(info)) {
		err = fmt.Errorf("%s is not a file of yours", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// isPrivate: only this user may use the folder, and it is no link.
func isPrivate(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir() && isOwn(info) && info.Mode().Perm()&0o077 == 0
}

func isOwn(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
