// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

// detach starts the same dev in the background and returns when it is ready or has failed. An interruption stops it.
func (p Program) detach(cmd *cobra.Command, o options) error {
	t := output.NewTerminal(nil, p.Stdout, p.Stderr)
	if held(o.dataDir) {
		return report(t, taken(o.dataDir))
	}
	process, err := p.startBackground(cmd)
	if err != nil {
		return report(t, fmt.Errorf("start in the background: %w", err))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = process.Wait() // Its output says how it ended.
	}()
	ready := time.NewTicker(pollPeriod)
	defer ready.Stop()
	for {
		select {
		case <-ready.C:
			if now := readSignature(o.dataDir); now.ready && now.pid == strconv.Itoa(process.Process.Pid) {
				return nil
			}
			continue
		case <-cmd.Context().Done():
			if err := process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("stop process %d: %w", process.Process.Pid, err)
			}
			<-ended
			return errFailed
		case <-ended:
		}
		if code := process.ProcessState.ExitCode(); code != 1 { // It has not said why.
			t.Say(output.Failure, "the process in the background died: %s", process.ProcessState)
		}
		return errFailed
	}
}

// startBackground starts this program with the same flags, in a session of its own. It writes to our streams until it is ready.
func (p Program) startBackground(cmd *cobra.Command) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"dev", "--" + backgroundFlag}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "detach" {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	process := exec.CommandContext(context.WithoutCancel(cmd.Context()), self, args...)
	process.Stdout, process.Stderr = p.Stdout, p.Stderr
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return process, process.Start()
}

// leaveStreams has all later output go to the log, also the stack trace of a panic.
func leaveStreams(log string) error {
	file, err := openNoLink(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return err
	}
	return errors.Join(
		unix.Dup2(int(file.Fd()), int(os.Stdout.Fd())), unix.Dup2(int(file.Fd()), int(os.Stderr.Fd())), file.Close(),
	)
}

// downTimeout is for kind, which takes longest.
const downTimeout = 2 * time.Minute

// down also removes the files of a killed dev.
func down(ctx context.Context, dir string, t *output.Terminal) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	process, err := holder(dir)
	if err != nil {
		return err
	}
	if process == nil {
		t.Done("nothing runs in %s", dir)
		return removeLeftovers(dir)
	}
	t.Step("stopping process %d in %s", process.Pid, dir)
	if err := process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d: %w", process.Pid, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, downTimeout,
		fmt.Errorf("process %d is still there %s after SIGTERM; see %s", process.Pid, downTimeout, filepath.Join(dir, logFile)))
	defer cancel()
	if err := access.Poll(ctx, pollPeriod, func() (bool, error) { return !held(dir), nil }); err != nil {
		return err
	}
	t.Done("stopped")
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
