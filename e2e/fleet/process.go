// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// gonePeriod is short, since looking costs nothing.
	gonePeriod = 5 * time.Millisecond
	// readyPeriod: looking costs the cluster some work.
	readyPeriod = 40 * time.Millisecond
)

// obeyTimeout is for signals that cannot be refused: to be killed, or frozen. A machine without memory or processors takes its time.
const obeyTimeout = 2 * time.Minute

const tailLines = 15

// A restarted process writes to the same log.
type program struct {
	path string
	args []string
	// env goes before variables of this process.
	env []string
	dir string
	// remove is deleted if this process dies without having stopped the program.
	remove string
}

func (p program) name() string    { return filepath.Base(p.path) }
func (p program) logFile() string { return filepath.Join(p.dir, p.name()+".log") }

type process struct {
	program
	handle *os.Process
	ended  chan struct{} // closed when it has ended, and was reaped
}

func (p *process) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p program) start() (*process, error) {
	out, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(p.path, p.args...) //nolint:noctx // its owner ends it
	cmd.Dir = p.dir
	cmd.Env = slices.Concat(cmd.Environ(), p.env) // The last value of a variable counts.
	cmd.Stdout, cmd.Stderr = out, out
	ended, err := StartTied(cmd, p.remove)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name(), err)
	}
	started := &process{program: p, handle: cmd.Process, ended: make(chan struct{})}
	go func() {
		defer close(started.ended)
		_ = cmd.Wait() // How it ended is in its log.
		noteCost(p.name(), cmd.ProcessState)
		ended()
	}()
	return started, nil
}

// guard runs a command when this process dies without calling release.
func guard(command ...string) (release func(), err error) {
	const script = `read -r line <&3 && exit; exec "$@"`
	args := append([]string{"-c", script, "guard"}, command...)
	cmd := exec.Command("/bin/sh", args...) //nolint:noctx // it ends when this process does
	ended, err := startPiped(cmd)
	if err != nil {
		return nil, err
	}
	return func() {
		ended()
		_ = cmd.Wait()
	}, nil
}

// To a process that has ended it does nothing.
func (p *process) signal(s os.Signal) error {
	if p.gone() {
		return nil
	}
	if err := p.handle.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", s, p.name(), err)
	}
	return nil
}

func (p *process) wait(ctx context.Context) error {
	if err := poll(ctx, gonePeriod, p.gone); err != nil {
		return fmt.Errorf("wait for the end of %s: %w", p.name(), err)
	}
	return nil
}

// kill also ends a frozen process.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	return p.obey(p.gone)
}

// freeze waits: a thread may continue for a while after the signal.
func (p *process) freeze() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.obey(func() bool { return p.gone() || frozen(p.handle.Pid) })
}

// obey waits for a signal that cannot be refused.
func (p *process) obey(done func() bool) error {
	ctx, cancel := obeyContext()
	defer cancel()
	if poll(ctx, gonePeriod, done) != nil {
		return fmt.Errorf("%s did not heed a signal for %s", p.name(), obeyTimeout)
	}
	return nil
}

func obeyContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), obeyTimeout) //nolint:forbidigo // Its caller has none.
}

// died has the end of the log.
func (p *process) died() error {
	if !p.gone() {
		return nil
	}
	return fmt.Errorf("%s ended; the last lines of %s:\n%s", p.name(), p.logFile(), p.tail())
}

func (p program) tail() string {
	data, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

func poll(ctx context.Context, period time.Duration, done func() bool) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
	return nil
}
