// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const lockPeriod = 200 * time.Millisecond

const scratch = ".build-"

type builder struct {
	dir     string
	log     io.Writer
	compile func(ctx context.Context, t tool, file string) error
}

// A program is always complete or absent.
func (b builder) build(ctx context.Context, tools []tool) (err error) {
	if len(b.missing(tools)) == 0 {
		say(b.log, "the programs in %s are complete", b.dir)
		return nil
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return fmt.Errorf("make the folder for the programs: %w", err)
	}
	lock, err := b.lock(ctx)
	if err != nil {
		return fmt.Errorf("wait for another build: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	b.sweep()
	missing := b.missing(tools)
	for i, t := range missing {
		say(b.log, "[%d/%d] building %s: usually about %s on 2 cores, much less if it was compiled before",
			i+1, len(missing), t.name, t.usual)
		begin := time.Now()
		if err := b.install(ctx, t); err != nil {
			return err
		}
		say(b.log, "[%d/%d] built %s in %s", i+1, len(missing), t.name, time.Since(begin).Round(time.Second))
	}
	say(b.log, "the programs are in %s", b.dir)
	return nil
}

func (b builder) missing(tools []tool) []tool {
	var missing []tool
	for _, t := range tools {
		if !exists(filepath.Join(b.dir, t.name)) {
			missing = append(missing, t)
		}
	}
	return missing
}

// install builds a program beside its place and moves it there.
func (b builder) install(ctx context.Context, t tool) (err error) {
	temp, err := os.MkdirTemp(b.dir, scratch)
	if err != nil {
		return fmt.Errorf("make a folder to build %s in: %w", t.name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	file := filepath.Join(temp, t.name)
	if err := b.compile(ctx, t, file); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("build %s: interrupted; finished programs stay, run the command again to resume", t.name)
		}
		return fmt.Errorf("build %s: %w: see above; the first build needs a Go module proxy (go env GOPROXY) "+
			"and some 4 GB of disk and of memory", t.name, err)
	}
	return os.Rename(file, filepath.Join(b.dir, t.name))
}

// lock keeps other builds out until the file is closed, by us or by our end.
func (b builder) lock(ctx context.Context) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(b.dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockPeriod)
	defer ticker.Stop()
	for told := false; ; told = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(err, file.Close())
		}
		if !told {
			say(b.log, "another build is running in %s: waiting for it", b.dir)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-ticker.C:
		}
	}
}

// sweep removes what killed builds have left. It needs the lock.
func (b builder) sweep() {
	stale, err := filepath.Glob(filepath.Join(b.dir, scratch+"*"))
	if err != nil {
		return
	}
	for _, dir := range stale {
		_ = os.RemoveAll(dir) // The folder is harmless.
	}
}
