// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	log   *prefixWriter
}

// startReplicas starts processes that end with cleanUp.
func (d *demo) startReplicas(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{cancel: cancel, done: make(chan struct{})}
	d.running = r
	var group sync.WaitGroup
	var failed error
	output := &sync.Mutex{}
	for i := range d.replicas {
		one, err := d.startReplica(ctx, fmt.Sprintf("hub-%d", i), output)
		if err != nil {
			failed = fmt.Errorf("start replica hub-%d: %w", i, err)
			break
		}
		d.started = append(d.started, one)
		group.Go(func() { d.reportEnd(ctx, one) })
	}
	go func() {
		defer close(r.done)
		group.Wait()
	}()
	return failed
}

// startReplica's process gets SIGTERM when ctx ends.
func (d *demo) startReplica(ctx context.Context, name string, output *sync.Mutex) (*replica, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &replica{
		Replica: Replica{Name: name, Kubeconfig: d.folder.path(accountFile)}, log: &prefixWriter{prefix: name + " ", w: d.log, output: output},
	}
	if r.Metrics, err = fleet.FreeAddress(ctx); err != nil {
		return nil, fmt.Errorf("find a port for the metrics: %w", err)
	}
	r.cmd = exec.CommandContext(ctx, self, d.prepared.Args(r.Replica)...)
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(syscall.SIGTERM) }
	r.cmd.WaitDelay = leaveTimeout
	r.ended, err = fleet.StartTied(r.cmd, "")
	return r, err
}

// reportEnd prints the end of a replica unless dev has ended it.
func (d *demo) reportEnd(ctx context.Context, r *replica) {
	err := r.cmd.Wait()
	r.ended()
	r.log.flush()
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

// prefixWriter prefixes lines. Several may share a writer and its lock. Only one goroutine may use it.
type prefixWriter struct {
	prefix string
	w      io.Writer
	output *sync.Mutex // protects w, so that lines stay whole
	rest   []byte      // the begin of a line whose end was not written yet
}

var _ io.Writer = (*prefixWriter)(nil)

// Write keeps an incomplete line for flush.
func (p *prefixWriter) Write(data []byte) (int, error) {
	p.rest = append(p.rest, data...)
	end := bytes.LastIndexByte(p.rest, '\n') + 1
	var text []byte
	for line := range bytes.Lines(p.rest[:end]) {
		text = append(append(text, p.prefix...), line...)
	}
	p.rest = append([]byte(nil), p.rest[end:]...)
	if len(text) == 0 {
		return len(data), nil
	}
	p.output.Lock()
	defer p.output.Unlock()
	_, err := p.w.Write(text)
	return len(data), err
}

func (p *prefixWriter) flush() {
	if len(p.rest) > 0 {
		_, _ = p.Write([]byte("\n"))
	}
}
