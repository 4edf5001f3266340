// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// downTimeout is for kind, which takes longest.
const downTimeout = 2 * time.Minute

// down also removes the files of a killed dev.
func down(ctx context.Context, dir string, progress *printer) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	process, err := holder(dir)
	if err != nil {
		return err
	}
	if process == nil {
		progress.done("nothing runs in %s", dir)
		return removeLeftovers(dir)
	}
	progress.step("stopping process %d in %s", process.Pid, dir)
	if err := process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d: %w", process.Pid, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, downTimeout,
		fmt.Errorf("process %d is still there %s after SIGTERM; see %s", process.Pid, downTimeout, filepath.Join(dir, logFile)))
	defer cancel()
	if err := poll(ctx, func() (bool, error) { return !held(dir), nil }); err != nil {
		return err
	}
	progress.done("stopped")
	return nil
}

func removeLeftovers(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, lockFile)); err != nil {
		return nil //nolint:nilerr // Without that file it is nobody's folder, or there is none.
	}
	f, err := claim(dir)
	if err != nil {
		return err
	}
	return f.release(false)
}

const pollPeriod = 50 * time.Millisecond

// poll returns when done says so or fails, or with the cause of ctx.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollPeriod)
	defer ticker.Stop()
	for {
		if over, err := done(); over || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
