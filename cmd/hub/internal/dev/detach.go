// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

type background struct {
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	copied  sync.WaitGroup
}

// detach starts the same dev in the background and returns when it is ready or has failed. An interruption stops it.
func (p Program) detach(cmd *cobra.Command, o options) error {
	t := output.NewTerminal(nil, p.Stdout, p.Stderr)
	if held(o.dataDir) {
		return report(t, taken(o.dataDir))
	}
	b, err := p.startBackground(cmd, o, t.Fancy())
	if err != nil {
		return report(t, fmt.Errorf("start in the background: %w", err))
	}
	silent := make(chan struct{})
	go func() {
		defer close(silent)
		b.copied.Wait()
	}()
	select {
	case <-silent:
	case <-cmd.Context().Done():
		return b.stop()
	}
	if readSignature(o.dataDir).ready && held(o.dataDir) {
		return nil
	}
	<-b.ended
	if code := b.process.ProcessState.ExitCode(); code != 1 { // It has not said why.
		t.Say(output.Failure(), "the process in the background died: see %s", filepath.Join(o.dataDir, logFile))
	}
	return ErrFailed
}

// stop returns when the process has cleaned up.
func (b *background) stop() error {
	if err := b.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d: %w", b.process.Process.Pid, err)
	}
	<-b.ended
	b.copied.Wait()
	return ErrFailed
}

// startBackground starts this program with the same flags, in a session of its own. Its output comes through two pipes
// until it closes them; the stack trace of a panic goes to the log.
func (p Program) startBackground(cmd *cobra.Command, o options, fancy bool) (*background, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.dataDir, 0o700); err != nil {
		return nil, err
	}
	log, err := openNoLink(filepath.Join(o.dataDir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	b := &background{
		process: exec.CommandContext(context.WithoutCancel(cmd.Context()), self, backgroundArgs(cmd.Flags(), fancy)...),
		ended:   make(chan struct{}),
	}
	b.process.Stdout, b.process.Stderr = log, log
	b.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	for _, w := range []io.Writer{p.Stdout, p.Stderr} {
		theirs, err := b.relay(w)
		if err != nil {
			return nil, err
		}
		defer func() { _ = theirs.Close() }()
		b.process.ExtraFiles = append(b.process.ExtraFiles, theirs)
	}
	if err := b.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(b.ended)
		_ = b.process.Wait() // Its output says how it ended.
	}()
	return b, nil
}

// relay returns the write end of the pipe.
func (b *background) relay(w io.Writer) (*os.File, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b.copied.Go(func() {
		_, _ = io.Copy(w, ours) // It ends when the process closes its end, or ends.
		_ = ours.Close()
	})
	return theirs, nil
}

// backgroundArgs reports in place of --detach.
func backgroundArgs(flags *pflag.FlagSet, fancy bool) []string {
	args := []string{"dev", "--report=" + strconv.FormatBool(fancy)}
	flags.Visit(func(f *pflag.Flag) {
		if f.Name != "detach" {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args
}

// Descriptors of the pipes to the dev in the foreground.
const (
	reportOut      = 3
	reportProgress = 4
)

// reportTo prints until closeReport. The clusters' processes must not inherit the pipes, which would stay open.
func reportTo(fancy string) *output.Terminal {
	syscall.CloseOnExec(reportOut)
	syscall.CloseOnExec(reportProgress)
	return output.NewPipes(os.NewFile(reportOut, "report"), os.NewFile(reportProgress, "progress"), fancy == "true")
}

// closeReport has later output go to the log.
func closeReport(t *output.Terminal) {
	pipes := []io.Writer{t.Out, t.Err}
	t.Redirect(os.Stderr)
	for _, pipe := range pipes {
		if pipe, isPipe := pipe.(io.Closer); isPipe {
			_ = pipe.Close()
		}
	}
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
