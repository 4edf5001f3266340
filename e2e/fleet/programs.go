// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
)

type programs struct {
	cluster           *Cluster
	etcd              *process
	apiServer         program
	controllerManager program

	// mu is held for no more than the start of a process.
	mu sync.Mutex
	// The API server is first.
	running []*process
	// No program may start afterwards.
	destroyed bool
}

var _ machine = (*programs)(nil)

func (m *programs) start(ctx context.Context) error {
	m.mu.Lock()
	m.running = nil
	m.mu.Unlock()
	if err := m.run(m.apiServer); err != nil {
		return err
	}
	if err := m.cluster.awaitReady(ctx, m.died); err != nil {
		return err
	}
	if m.controllerManager.path == "" {
		return nil
	}
	if err := m.run(m.controllerManager); err != nil {
		return err
	}
	return m.cluster.awaitServiceAccount(ctx, m.died)
}

func (m *programs) run(p program) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.destroyed {
		return errClosed
	}
	started, err := p.start()
	if err != nil {
		return err
	}
	m.running = append(m.running, started)
	return nil
}

func (m *programs) died() error {
	return errors.Join(m.etcd.died(), m.each((*process).died))
}

func (m *programs) stop(ctx context.Context) error {
	if err := m.signal(syscall.SIGTERM); err != nil {
		return err
	}
	return m.each(func(p *process) error { return p.wait(ctx) })
}

func (m *programs) kill() error { return m.each((*process).kill) }

func (m *programs) freeze(frozen bool) error {
	if frozen {
		return m.each((*process).freeze)
	}
	return m.signal(syscall.SIGCONT)
}

// destroy needs no context: to be killed takes no time.
func (m *programs) destroy(context.Context) error {
	m.mu.Lock()
	m.destroyed = true
	m.mu.Unlock()
	return m.kill()
}

func (m *programs) signal(s syscall.Signal) error {
	return m.each(func(p *process) error { return p.signal(s) })
}

func (m *programs) each(f func(*process) error) error {
	m.mu.Lock()
	running := slices.Clone(m.running)
	m.mu.Unlock()
	var errs []error
	for _, p := range running {
		errs = append(errs, f(p))
	}
	return errors.Join(errs...)
}
