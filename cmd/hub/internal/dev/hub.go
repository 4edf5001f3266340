// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

type running struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // read it only after done
}

func (r *running) stop() {
	r.cancel()
	<-r.done
}

// startHub's hub ends with cleanUp and not with ctx, so that it is stopped in order.
func (d *demo) startHub(ctx context.Context) error {
	account, err := d.hubAccount(ctx)
	if err != nil {
		return err
	}
	if d.replicas > 1 {
		if err := d.folder.writeNew(accountFile, account.Kubeconfig()); err != nil {
			return fmt.Errorf("write the kubeconfig of the replicas: %w", err)
		}
		return d.startReplicas(ctx)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{cancel: cancel, done: make(chan struct{})}
	at := Addresses{NATS: d.natsURL}
	if d.agents != nil {
		at.Tunnel = d.agents.Address
	}
	go func() {
		defer close(r.done)
		r.err = d.prepared.Run(ctx, account.Config(), at)
	}()
	d.running = r
	return nil
}

func (d *demo) hubEnded() error {
	where := ""
	if !d.verbose {
		where = "; see " + d.folder.path(logFile)
	}
	if d.running.err == nil {
		return errors.New("the hub ended" + where)
	}
	return fmt.Errorf("the hub ended: %w%s", d.running.err, where)
}

// Replica is what a replica of the hub, a process of its own, gets from dev.
type Replica struct {
	Name, Kubeconfig, Metrics string
}

// leaveTimeout is between SIGTERM and the kill.
const leaveTimeout = 30 * time.Second

type replica struct {
	Replica
	cmd   *exec.Cmd
	ended func() // tells the guard that the process has ended
	log   *io.PipeWriter
}

// startReplicas starts processes that end with cleanUp.
func (d *demo) startReplicas(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{cancel: cancel, done: make(chan struct{})}
	d.running = r
	var group sync.WaitGroup
	var failed error
	for i := range d.replicas {
		lines, log := io.Pipe()
		one, err := d.startReplica(ctx, fmt.Sprintf("hub-%d", i), log)
		if err != nil {
			failed = fmt.Errorf("start replica hub-%d: %w", i, err)
			break
		}
		d.started = append(d.started, one)
		group.Go(func() { d.copyLines(one.Name, lines) })
		group.Go(func() { d.reportEnd(ctx, one) })
	}
	go func() {
		defer close(r.done)
		group.Wait()
	}()
	return failed
}

// startReplica's process gets SIGTERM when ctx ends.
func (d *demo) startReplica(ctx context.Context, name string, log *io.PipeWriter) (*replica, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &replica{Replica: Replica{Name: name, Kubeconfig: d.folder.path(accountFile)}, log: log}
	if r.Metrics, err = fleet.FreeAddress(ctx); err != nil {
		return nil, fmt.Errorf("find a port for the metrics: %w", err)
	}
	r.cmd = exec.CommandContext(ctx, self, d.prepared.Args(r.Replica)...)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(syscall.SIGTERM) }
	r.cmd.WaitDelay = leaveTimeout
	r.ended, err = fleet.StartTied(r.cmd, "")
	return r, err
}

// reportEnd prints the end of a replica unless dev has ended it.
func (d *demo) reportEnd(ctx context.Context, r *replica) {
	err := r.cmd.Wait()
	r.ended()
	_ = r.log.Close() // It never fails.
	if ctx.Err() != nil {
		return
	}
	how := "exit status 0"
	if err != nil {
		how = err.Error()
	}
	d.terminal.Step("replica %s (process %d) ended: %s; the other replicas take over its Clusters", r.Name, r.cmd.Process.Pid, how)
}

func (d *demo) nextOfReplicas() []string {
	if len(d.started) == 0 {
		return nil
	}
	drained, killed := d.started[1], d.started[len(d.started)-1]
	program := self(d.program.Name)
	return []string{
		"kubectl -n " + hubv1.DefaultNamespace + " get lease -l clusterfx.dev/sharding",
		fmt.Sprintf("%s drain %s   # the others take over its Clusters", program, drained.Name),
		fmt.Sprintf("kill -9 %d   # ends %s", killed.cmd.Process.Pid, killed.Name),
	}
}

// copyLines writes the lines of a replica with its name before them. Each is one write, so that it stays whole.
func (d *demo) copyLines(name string, from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			_, _ = fmt.Fprintln(d.log, name, strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			return
		}
	}
}
