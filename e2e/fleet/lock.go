// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lockNew locks an empty file. Processes that inherit it hold the lock until the last has closed it or ended.
func lockNew(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// unlocked: no process holds the lock.
func unlocked(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer func() { _ = file.Close() }()
	return syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil
}

// adopt finds the process of a detached program, or nil. The id in the file may be another's by now; but if the lock is
// still held after the handle was taken, the handle is the holder's.
func (p program) adopt() (*process, error) {
	if unlocked(p.lockFile()) {
		return nil, nil
	}
	data, err := os.ReadFile(p.lockFile())
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, fmt.Errorf("find %s: read %s: %w", p.name(), p.lockFile(), err)
	}
	handle, err := os.FindProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", p.name(), err)
	}
	if unlocked(p.lockFile()) {
		return nil, nil
	}
	return &process{program: p, handle: handle, gone: func() bool { return unlocked(p.lockFile()) }}, nil
}

// Below the ports of outgoing connections, so that the port of a stopped cluster is not taken by chance.
const (
	firstPort = 20000
	lastPort  = 29999
)

const portAttempts = 20

// FreePort returns a free port that outgoing connections do not use. Another process may take it first.
func FreePort(ctx context.Context, addr netip.Addr) (int, error) {
	var config net.ListenConfig
	var failures []error
	for range portAttempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(addr.String(), strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
		failures = append(failures, err)
	}
	return 0, errors.Join(failures...)
}
